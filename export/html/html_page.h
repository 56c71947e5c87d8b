/* The HTML, CSS and JavaScript files of this folder as strings. The build embeds them
   (cmake/SynEmbed.cmake). */
#ifndef EXPORT_HTML_PAGE_H
#define EXPORT_HTML_PAGE_H

#ifdef __cplusplus
extern "C" {
#endif

extern const char syn__html_style[];  /* page.css */
extern const char syn__html_body[];   /* page.html: the elements that the script fills */
extern const char syn__html_script[]; /* view_*.js, concatenated */

#ifdef __cplusplus
}
#endif
#endif

/* The files of this folder that are not C, as the build put them into it (cmake/SynEmbed.cmake). */
#ifndef EXPORT_HTML_PAGE_H
#define EXPORT_HTML_PAGE_H

#ifdef __cplusplus
extern "C" {
#endif

extern const char syn__html_style[];  /* page.css */
extern const char syn__html_body[];   /* page.html: what a script fills */
extern const char syn__html_script[]; /* view_*.js, one after the other */

#ifdef __cplusplus
}
#endif
#endif

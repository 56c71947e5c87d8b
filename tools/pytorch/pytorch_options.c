/* Parses the values of --edges and --object. */
#include "tools/pytorch/pytorch_options.h"

#include <string.h>

#include "export/text/loose_json.h"

#define ALL    ((1u << SYN_PYTORCH_EDGE_CLASSES) - 1)
#define ALWAYS (1u << SYN_PYTORCH_EDGE_CALL | 1u << SYN_PYTORCH_EDGE_PROGRAM)

bool pytorch_read_edges(const char *text, uint32_t *without, const char **wrong) {
    *without = strcmp(text, "all") == 0 ? 0 : ALL & ~ALWAYS;
    if (strcmp(text, "all") == 0 || strcmp(text, "none") == 0) return true;
    for (const char *p = text, *end;; p = end + 1) {
        end = p + strcspn(p, ",");
        const syn__str word = {p, (size_t)(end - p)};
        int c = 0;
        while (c < SYN_PYTORCH_EDGE_CLASSES &&
               !syn__str_is(word, syn_pytorch_edge_name((syn_pytorch_edge_class)c)))
            c++;
        *wrong = p;
        if (c == SYN_PYTORCH_EDGE_CLASSES) return false;
        *without &= ~(1u << c);
        if (!*end) return true;
    }
}

bool pytorch_read_object(const char *text, syn_pytorch_object *object) {
    int64_t number = 0;
    *object = (syn_pytorch_object){SYN_PYTORCH_LAST_OBJECT, 0};
    if (strcmp(text, "last") == 0) return true;
    object->which = SYN_PYTORCH_ALL_OBJECTS;
    if (strcmp(text, "all") == 0) return true;
    object->which = SYN_PYTORCH_ONE_OBJECT;
    if (!syn__loose_i64(syn__str_of(text), &number) || number < 0) return false;
    object->number = (uint64_t)number;
    return true;
}

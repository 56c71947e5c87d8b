/* Defines the looks of boxes. Colours show the class: tensors are green, ops blue, communication
   red. Shape, border and icon show the kind of op. */
#include "export/picture/picture_draw.h"

#define BLUE      "#1f5fa8"
#define BLUE_FILL "#d6e6f8"
#define GREEN     "#2e7d32"
#define RED       "#c62828"

#define UPRIGHT 0, 0, 0 /* upright sides, no extra height */
#define BAR(name, colour) \
    { name, "", "box", "filled", colour, colour, 0.2, 1, 6, UPRIGHT }

/* Icons are characters of DejaVu Sans that common sans fonts also have. */
static const syn__pic_style styles[SYN__PIC_LOOKS] = {
    [SYN__PIC_OP + SYN_CATEGORY_OTHER] = {"other op", "", "box", "filled", BLUE_FILL, BLUE, 1, 1, 8,
                                          UPRIGHT},
    [SYN__PIC_OP + SYN_CATEGORY_MATMUL] = {"matrix product", "\xE2\x8A\x97", "box", "filled",
                                           "#b7d3f2", "#174a86", 1.8, 1, 8, UPRIGHT},
    [SYN__PIC_OP + SYN_CATEGORY_ATTENTION] = {"attention, softmax", "\xCF\x83", "octagon", "filled",
                                              BLUE_FILL, BLUE, 1, 1, 4, 0.11, 6, 0},
    [SYN__PIC_OP + SYN_CATEGORY_NORM] = {"normalisation", "\xCE\xBC", "hexagon", "filled",
                                         BLUE_FILL, BLUE, 1, 1, 4, 0.15, 6, 0},
    [SYN__PIC_OP + SYN_CATEGORY_ELEMENTWISE] = {"element-wise", "\xC6\x92", "box", "filled,rounded",
                                                BLUE_FILL, BLUE, 1, 1, 8, UPRIGHT},
    [SYN__PIC_OP + SYN_CATEGORY_REDUCTION] = {"reduction", "\xCE\xA3", "invhouse", "filled",
                                              BLUE_FILL, BLUE, 1, 1, 10, 0, 14, 12},
    [SYN__PIC_OP + SYN_CATEGORY_EMBEDDING] = {"embedding", "\xE2\x96\xA4", "component", "filled",
                                              BLUE_FILL, BLUE, 1, 1, 14, UPRIGHT},
    [SYN__PIC_OP + SYN_CATEGORY_DATA_MOVEMENT] = {"data movement", "\xE2\x87\xA8", "note", "filled",
                                                  BLUE_FILL, BLUE, 1, 1, 10, UPRIGHT},
    [SYN__PIC_OP + SYN_CATEGORY_VIEW] = {"view", "", "box", "filled,dashed", "#eef4fc", BLUE, 0.8,
                                         1, 8, UPRIGHT},
    [SYN__PIC_OP + SYN_CATEGORY_RANDOM] = {"random", "\xE2\x9A\x84", "folder", "filled", BLUE_FILL,
                                           BLUE, 1, 1, 10, UPRIGHT},
    [SYN__PIC_OP + SYN_CATEGORY_COMMUNICATION] = {"communication", "\xE2\x87\x84", "box", "filled",
                                                  "#fbd3d0", RED, 1.6, 2, 10, UPRIGHT},
    [SYN__PIC_RUN] = {"several ops", "", "box3d", "filled", BLUE_FILL, BLUE, 1, 1, 10, UPRIGHT},
    [SYN__PIC_MEMORY] = {"memory operation", "\xE2\x87\xA9", "cylinder", "filled", BLUE_FILL, BLUE,
                         1, 1, 12, UPRIGHT},
    [SYN__PIC_COLLECTIVE] = {"collective communication", "\xE2\x87\x84", "box", "filled", "#fbd3d0",
                             RED, 1.4, 2, 10, UPRIGHT},
    [SYN__PIC_MESSAGE] = {"send, receive", "\xE2\x9C\x89", "box", "filled,rounded", "#fbd3d0", RED,
                          1.4, 1, 10, UPRIGHT},
    [SYN__PIC_ACTIVATION] = {"activation", "", "box", "filled,rounded", "#e3f4e1", GREEN, 0.9, 1, 7,
                             UPRIGHT},
    [SYN__PIC_PARAM] = {"parameter", "", "box", "filled", "#bfe3bb", GREEN, 0.9, 1, 7, UPRIGHT},
    [SYN__PIC_INPUT] = {"input", "", "box", "filled,bold", "#f1faf0", GREEN, 1.8, 1, 7, UPRIGHT},
    [SYN__PIC_STATE] = {"persistent state", "", "box3d", "filled", "#d3ecd0", GREEN, 0.9, 1, 8,
                        UPRIGHT},
    [SYN__PIC_ELSEWHERE] = {"tensor from another part", "", "box", "filled,rounded,dashed",
                            "#f4fbf3", GREEN, 0.9, 1, 7, UPRIGHT},
    [SYN__PIC_TIME + SYN_CATEGORY_OTHER] = BAR("other op", "#8795a1"),
    [SYN__PIC_TIME + SYN_CATEGORY_MATMUL] = BAR("matrix product", "#2f74d0"),
    [SYN__PIC_TIME + SYN_CATEGORY_ATTENTION] = BAR("attention, softmax", "#8a56cc"),
    [SYN__PIC_TIME + SYN_CATEGORY_NORM] = BAR("normalisation", "#d9a400"),
    [SYN__PIC_TIME + SYN_CATEGORY_ELEMENTWISE] = BAR("element-wise", "#43a35f"),
    [SYN__PIC_TIME + SYN_CATEGORY_REDUCTION] = BAR("reduction", "#1f9c9c"),
    [SYN__PIC_TIME + SYN_CATEGORY_EMBEDDING] = BAR("embedding", "#a4703f"),
    [SYN__PIC_TIME + SYN_CATEGORY_DATA_MOVEMENT] = BAR("data movement", "#7d8fa8"),
    [SYN__PIC_TIME + SYN_CATEGORY_VIEW] = BAR("view", "#b9c4ce"),
    [SYN__PIC_TIME + SYN_CATEGORY_RANDOM] = BAR("random", "#dd6fae"),
    [SYN__PIC_TIME + SYN_CATEGORY_COMMUNICATION] = BAR("communication", "#d53a36"),
    [SYN__PIC_TIME_WAIT] = BAR("waiting for other ranks", "#f3bcb8"),
    [SYN__PIC_TIME_RANGE] = {"layer, module, named range", "", "box", "filled", "#edf1f5",
                             "#9fabb8", 0.5, 1, 6, UPRIGHT},
    [SYN__PIC_BADGE] = {"identical, drawn once", "", "box", "filled,rounded", "#37474f", "#37474f",
                        1, 1, 6, UPRIGHT},
    [SYN__PIC_PLAIN] = {"", "", "plaintext", "", "none", "none", 0, 0, 0, UPRIGHT},
};

const syn__pic_style *syn__pic_style_of(int look) {
    return &styles[look >= 0 && look < SYN__PIC_LOOKS ? look : 0];
}

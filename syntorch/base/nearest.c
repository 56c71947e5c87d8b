/* Compares names; see nearest.h. */
#include "syntorch/base/nearest.h"

#include <string.h>

/* Levenshtein distance, for names up to 63 characters. */
static int distance(const char *a, const char *b) {
    int row[64];
    const int n = (int)strlen(b) < 63 ? (int)strlen(b) : 63;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 0; a[i] && i < 63; i++) {
        int diagonal = row[0];
        row[0] = i + 1;
        for (int j = 0; j < n; j++) {
            const int change = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            int best = diagonal < row[j] ? diagonal + 1 : row[j] + 1;
            row[j + 1] = change < best ? change : best;
        }
    }
    return row[n];
}

void syn__nearest_try(syn__nearest *nearest, const char *typed, const char *name) {
    /* A name with more wrong characters is not a typo. */
    const int n = (int)strlen(typed), limit = n < 6 ? n / 2 + 1 : 4;
    const int d = distance(typed, name);
    if (d >= (nearest->name ? nearest->distance : limit)) return;
    *nearest = (syn__nearest){name, d};
}

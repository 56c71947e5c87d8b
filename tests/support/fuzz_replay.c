/* Runs a fuzz target over the files of the given folders. It replaces the fuzzer's main, so that
   the test suite replays the corpora with any compiler. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return -1;
    size_t cap = 1 << 20, size = 0, got;
    uint8_t *data = malloc(cap);
    while (data && (got = fread(data + size, 1, cap - size, f)) > 0) {
        size += got;
        if (size < cap) continue;
        uint8_t *more = realloc(data, cap *= 2);
        if (!more) break;
        data = more;
    }
    fclose(f);
    /* AddressSanitizer detects a read past the end only in a copy of exactly the input's size. */
    uint8_t *exact = data ? malloc(size ? size : 1) : NULL;
    if (exact) {
        memcpy(exact, data, size);
        LLVMFuzzerTestOneInput(exact, size);
    }
    free(exact);
    free(data);
    return exact ? 0 : -1;
}

int main(int argc, char **argv) {
    int files = 0;
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        if (!dir) {
            fprintf(stderr, "cannot open the folder %s\n", argv[i]);
            return 1;
        }
        for (struct dirent *e; (e = readdir(dir)) != NULL;) {
            if (e->d_name[0] == '.') continue;
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
            if (replay_file(path) != 0) {
                fprintf(stderr, "cannot read %s\n", path);
                return 1;
            }
            files++;
        }
        closedir(dir);
    }
    printf("%d inputs replayed\n", files);
    return files == 0;
}

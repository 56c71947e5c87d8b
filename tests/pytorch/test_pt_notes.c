/* Tests the list of anomalies (pt_notes.h): their names, counts, and the place of the first one. */
#include <ctype.h>

#include "export/pytorch/read/pt_notes.h"
#include "tests/support/test.h"

static void names_are_the_ids(void) {
    static const char *const ids[] = {
#define SYN_X(id, name, met, done) #id,
        SYN_PYTORCH_ANOMALY_LIST(SYN_X)
#undef SYN_X
    };
    for (int i = 0; i < SYN_PYTORCH_ANOMALIES; i++) {
        char name[64] = {0};
        for (size_t k = 0; ids[i][k] != '\0'; k++)
            name[k] = (char)(ids[i][k] == '_' ? '-' : tolower(ids[i][k]));
        CHECK_STR(syn_pytorch_anomaly_name((syn_pytorch_anomaly)i), name);
        CHECK(strlen(syn_pytorch_anomaly_met((syn_pytorch_anomaly)i)) > 3);
        CHECK(strlen(syn_pytorch_anomaly_done((syn_pytorch_anomaly)i)) > 3);
    }
    CHECK_STR(syn_pytorch_anomaly_met(SYN_PYTORCH_ANOMALY_EXTRA_COMMA), "extra commas");
    CHECK_STR(syn_pytorch_anomaly_done(SYN_PYTORCH_ANOMALY_EXTRA_COMMA), "ignored");
}

static void the_first_place_is_kept(void) {
    syn_pytorch_note notes[SYN_PYTORCH_ANOMALIES] = {{0}};
    syn__pt_note_at(notes, SYN_PYTORCH_ANOMALY_NO_ID, "a", 12, 3);
    syn__pt_note_at(notes, SYN_PYTORCH_ANOMALY_NO_ID, "b", 5, 4);
    syn__pt_note_many(notes, SYN_PYTORCH_ANOMALY_NO_ID, 10, "c", 1);
    const syn_pytorch_note *note = &notes[SYN_PYTORCH_ANOMALY_NO_ID];
    CHECK(note->count == 12 && note->at == 12 && note->node == 3);
    CHECK_STR(note->file, "a");
    syn__pt_note_many(notes, SYN_PYTORCH_ANOMALY_CONTROL, 0, "c", 1);
    CHECK(notes[SYN_PYTORCH_ANOMALY_CONTROL].count == 0);
    syn__pt_note_many(notes, SYN_PYTORCH_ANOMALY_CONTROL, 3, "c", 1);
    note = &notes[SYN_PYTORCH_ANOMALY_CONTROL];
    CHECK(note->count == 3 && note->at == 1 && note->node == SYN_PYTORCH_NO_PLACE);
    syn__pt_note_at(NULL, SYN_PYTORCH_ANOMALY_NO_ID, "a", 1, 1);
    syn__pt_note_many(NULL, SYN_PYTORCH_ANOMALY_NO_ID, 1, "a", 1);
}

static const test_case cases[] = {
    {"names_are_the_ids", names_are_the_ids},
    {"the_first_place_is_kept", the_first_place_is_kept},
};
TEST_MAIN(cases)

/* Two small ranks whose times can be reckoned by hand. */
#ifndef TESTS_TIMELINE_SAMPLE_H
#define TESTS_TIMELINE_SAMPLE_H

#include "tests/support/text_sample.h"

syn_status simulated_graph(syn_graph **out, bool with_times, bool skip_one, syn_error *err);

#endif

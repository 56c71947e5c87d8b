/* The public functions of the simulation. */
#include "export/chakra/simulate/et_sim.h"
#include "syntorch/base/memory.h"

static syn_status simulate(syn_simulation *out, syn__sim_set *set, syn__sim_folded *folded,
                           const char *const *paths, size_t n, const syn_simulate_options *options,
                           syn_error *err) {
    SYN_TRY(syn__sim_load(set, paths, n, options, err));
    out->chosen = syn__sim_chosen(set, options->algorithms, options->n_algorithms);
    SYN_TRY(syn__sim_fold(folded, set, err));
    SYN_TRY(syn__sim_run(out, set, folded, options, err));
    return options->traffic ? syn__sim_traffic(out, set, err) : SYN_OK;
}

syn_status syn_simulate(syn_simulation *out, const char *const *paths, size_t n,
                        const syn_simulate_options *options, syn_error *err) {
    syn__sim_machine machine;
    syn__sim_set set = {.machine = NULL};
    syn__sim_folded folded = {.n_classes = 0};
    *out = (syn_simulation){.n_nodes = 0};
    SYN_TRY(syn__sim_check_fused(options, err));
    if (options->network != NULL) {
        SYN_TRY(syn__sim_machine_read(&machine, options->network, options->system, err));
        SYN_TRY(
            syn__sim_choose_algorithms(&machine, options->algorithms, options->n_algorithms, err));
        set.machine = &machine;
    }
    const syn_status s = simulate(out, &set, &folded, paths, n, options, err);
    syn__sim_folded_close(&folded);
    syn__sim_set_close(&set);
    return s;
}

void syn_simulation_free(syn_simulation *simulation) {
    for (size_t i = 0; i < simulation->n_groups; i++) syn_free(simulation->groups[i].name);
    syn_free(simulation->groups);
    syn_free(simulation->ranks);
    syn_free(simulation->pairs);
    syn_free(simulation->rows);
    syn_free(simulation->deadlock);
    syn_free(simulation->path);
    syn_free(simulation->path_kinds);
    syn_free(simulation->path_names);
    syn_intern_free(&simulation->path_texts);
    *simulation = (syn_simulation){.n_nodes = 0};
}

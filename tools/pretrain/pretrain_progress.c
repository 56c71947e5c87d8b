/* The progress bar of the pretraining program. */
#include <unistd.h>

#include "syntorch/base/clock.h"
#include "tools/pretrain/pretrain.h"

/* There is no bar under a launcher, because it may run ranks on a terminal although their output
   goes elsewhere. */
void pretrain_bar_begin(pretrain *run, int64_t done) {
    if (run->args->quiet || syn_mpi_launched(NULL, NULL) || !isatty(STDOUT_FILENO)) return;
    run->bar = (pretrain_bar){.line = {stdout, 0}, .begun_ns = syn__clock_ns(), .first_step = done};
}

static void draw(pretrain *run, const pretrain_metrics *m) {
    const pretrain_bar *bar = &run->bar;
    char total[24], head[64], loss[32], took[32], time[48], speed[32], rate[32];
    const double took_s = 1e-9 * (double)(bar->drawn_ns - bar->begun_ns);
    const int64_t done = m->step - bar->first_step, left = run->steps - m->step;
    const int digits = snprintf(total, sizeof total, "%lld", (long long)run->steps);
    progress_time_text(left == 0 ? took_s : took_s / (double)done * (double)left, took,
                       sizeof took);
    snprintf(head, sizeof head, "step %*lld/%s", digits, (long long)m->step, total);
    snprintf(loss, sizeof loss, "loss %.4f", m->loss);
    snprintf(time, sizeof time, left == 0 ? "took %s" : "%s left", took);
    snprintf(speed, sizeof speed, "%.0f tokens/s", m->tokens_per_s);
    snprintf(rate, sizeof rate, "lr %.1e", m->learning_rate);
    const char *const fields[] = {loss, time, speed, rate, NULL};
    progress_line_draw(&run->bar.line, head, m->step, run->steps, fields);
}

void pretrain_bar_step(pretrain *run, const pretrain_metrics *m) {
    const uint64_t often_ns = 100000000, now = syn__clock_ns();
    const bool last = m->step == run->steps;
    if (!run->bar.line.out || (now - run->bar.drawn_ns < often_ns && !last)) return;
    run->bar.drawn_ns = now;
    draw(run, m);
    if (last) progress_line_end(&run->bar.line);
}

void pretrain_bar_clear(pretrain *run) {
    progress_line_clear(&run->bar.line);
}

/* Constructs tokenizers from steps, templates and added tokens. */
#include "models/tokenizer/tokenizer_private.h"

#include "syntorch/base/memory.h"

#include <string.h>

syn_status syn__steps_add(syn__steps *steps, syn__step_kind kind, syn__step **step,
                          syn_error *err) {
    SYN_TRY(syn_grow(&steps->at, &steps->cap, steps->n + 1, sizeof *steps->at, err));
    *step = &steps->at[steps->n++];
    **step = (syn__step){.kind = kind};
    return SYN_OK;
}

void syn__steps_free(syn__steps *steps) {
    for (size_t i = 0; i < steps->n; i++) {
        syn_free(steps->at[i].text);
        syn_free(steps->at[i].pattern);
        syn__regex_free(steps->at[i].regex);
    }
    syn_free(steps->at);
    *steps = (syn__steps){0};
}

syn_status syn__steps_add_byte_level(syn__steps *cuts, bool prefix_space, bool use_regex,
                                     syn_error *err) {
    static const char words[] = SYN__REGEX_GPT2;
    syn__step *step;
    if (prefix_space) SYN_TRY(syn__steps_add(cuts, SYN__CUT_PREFIX, &step, err));
    if (use_regex) {
        SYN_TRY(syn__steps_add(cuts, SYN__CUT_SPLIT, &step, err));
        step->behavior = SYN__ISOLATED;
        SYN_TRY(syn__regex_new(&step->regex, words, sizeof words - 1, false, err));
    }
    return syn__steps_add(cuts, SYN__CUT_SPELL, &step, err);
}

syn_status syn__steps_add_bert(syn__steps *normalizers, bool clean, bool ideographs, bool accents,
                               bool lower, syn_error *err) {
    syn__step *step;
    if (clean || ideographs) {
        SYN_TRY(syn__steps_add(normalizers, SYN__NORM_BERT_CLEAN, &step, err));
        step->clean = clean;
        step->ideographs = ideographs;
    }
    if (accents) SYN_TRY(syn__steps_add(normalizers, SYN__NORM_NFD, &step, err));
    if (!accents && !lower) return SYN_OK;
    SYN_TRY(syn__steps_add(normalizers, SYN__NORM_BERT_FOLD, &step, err));
    step->accents = accents;
    step->lower = lower;
    return SYN_OK;
}

bool syn__template_add(syn__template *t, int32_t id, int32_t type) {
    if (t->n == SYN__TEMPLATE_ITEMS) return false;
    t->id[t->n] = id;
    t->type[t->n++] = type;
    return true;
}

syn_status syn__tok_number_added(syn_tokenizer *tok, syn__find_token *find, const void *vocab,
                                 int32_t vocab_elems, const char *name, syn_error *err) {
    char shown[SYN__QUOTE_BYTES];
    tok->vocab_elems = vocab_elems;
    for (size_t i = 0; i < tok->added.n; i++) {
        syn__added_token *t = &tok->added.tokens[i];
        t->id = find(vocab, t->text, t->bytes);
        const bool is_new = t->id < 0;
        if (is_new && tok->vocab_elems == INT32_MAX - 1)
            return SYN_FAIL(err, SYN_E_FORMAT, "%s: too many added tokens", name);
        if (is_new) t->id = tok->vocab_elems++;
        if (t->given >= 0 && t->given != t->id)
            return SYN_FAIL(err, SYN_E_FORMAT,
                            "%s: the added token \"%s\" has the id %lld, but %s %d", name,
                            syn__quote(shown, t->text, t->bytes), (long long)t->given,
                            is_new ? "the next free one is" : "its id in the vocabulary is", t->id);
    }
    return SYN_OK;
}

/* ---- last step ---- */

bool syn__tok_spells(syn_tokenizer *tok, const syn__vocab *vocab) {
    const syn__steps *cuts = &tok->cuts, *decoders = &tok->decoders;
    tok->spells = cuts->n > 0 && cuts->at[cuts->n - 1].kind == SYN__CUT_SPELL && decoders->n == 1 &&
                  decoders->at[0].kind == SYN__DECODE_BYTES && syn__bpe_has_bytes(vocab);
    if (tok->spells) tok->cuts.n--;
    return tok->spells;
}

static bool needs_unicode(const syn__steps *steps) {
    for (size_t i = 0; i < steps->n; i++) switch (steps->at[i].kind) {
        case SYN__NORM_STRIP:
        case SYN__NORM_PREPEND:
        case SYN__NORM_REPLACE:
        case SYN__CUT_PREFIX:
        case SYN__CUT_SPELL:
        case SYN__CUT_SPLIT:
        case SYN__CUT_META:
        case SYN__CUT_SPACE:
            break;
        default:
            return true;
        }
    return false;
}

static bool composes(const syn__steps *steps) {
    for (size_t i = 0; i < steps->n; i++)
        if (steps->at[i].kind == SYN__NORM_NFC || steps->at[i].kind == SYN__NORM_NFKC) return true;
    return false;
}

/* Sets the text that is searched for (`found`) and the text that decoders get (`shown`). */
static syn_status set_forms(syn_tokenizer *tok, syn__normal_work *work, syn__added_token *t,
                            const char *name, syn_error *err) {
    char quoted[SYN__QUOTE_BYTES];
    const syn__text text = {t->text, t->bytes, NULL, NULL, true};
    syn__text found = text;
    if (t->normalized) SYN_TRY(syn__normalize(&tok->normalizers, work, &text, &found, err));
    if (found.n == 0)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "%s: the normalizer leaves nothing of the added token \"%s\"", name,
                        syn__quote(quoted, t->text, t->bytes));
    if (found.at != t->text) {
        char *copy = syn_strndup(found.at, found.n);
        if (copy == NULL) return SYN_FAIL_NOMEM(err, found.n, "an added token");
        t->found = t->shown = copy;
        t->found_bytes = t->shown_bytes = found.n;
    }
    if (!tok->spells) return SYN_OK;
    char *unspelled = syn_malloc(t->found_bytes);
    if (unspelled == NULL) return SYN_FAIL_NOMEM(err, t->found_bytes, "an added token");
    t->shown = unspelled;
    (void)syn__bpe_unspell(t->found, t->found_bytes, t->shown, &t->shown_bytes);
    return SYN_OK;
}

static syn_status check_different(const syn__added *added, const char *name, syn_error *err) {
    char shown[SYN__QUOTE_BYTES];
    for (int k = 0; k < 2; k++)
        for (size_t i = 1; i < added->n_sorted[k]; i++) {
            const syn__added_token *a = &added->tokens[added->sorted[k][i - 1]],
                                   *b = &added->tokens[added->sorted[k][i]];
            if (a->found_bytes == b->found_bytes && memcmp(a->found, b->found, a->found_bytes) == 0)
                return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                                "%s: the normalizer turns two added tokens, %d and %d, into \"%s\"",
                                name, a->id, b->id, syn__quote(shown, a->found, a->found_bytes));
        }
    return SYN_OK;
}

static syn_status finish_added(syn_tokenizer *tok, const char *name, syn_error *err) {
    syn__normal_work work = {.composer = tok->composer};
    syn_status status = syn__match_new(&work.match, err);
    for (size_t i = 0; status == SYN_OK && i < tok->added.n; i++)
        status = set_forms(tok, &work, &tok->added.tokens[i], name, err);
    syn__match_free(work.match);
    syn__normal_work_free(&work);
    if (status == SYN_OK) status = syn__added_index(&tok->added, err);
    return status == SYN_OK ? check_different(&tok->added, name, err) : status;
}

/* Fails if a template has an id that is not a token. */
static syn_status check_template(const syn_tokenizer *tok, const syn__template *t, const char *name,
                                 syn_error *err) {
    for (size_t i = 0; i < t->n; i++)
        if (t->id[i] >= tok->vocab_elems)
            return SYN_FAIL(err, SYN_E_FORMAT,
                            "%s: the id %d of the post_processor is not one of the %d tokens", name,
                            t->id[i], tok->vocab_elems);
    return SYN_OK;
}

syn_status syn__tok_finish(syn_tokenizer *tok, const char *name, syn_error *err) {
    if (needs_unicode(&tok->normalizers) || needs_unicode(&tok->cuts))
        SYN_TRY(syn__char_ready(err));
    if (composes(&tok->normalizers)) SYN_TRY(syn__composer_new(&tok->composer, err));
    if (tok->single.n == 0) (void)syn__template_add(&tok->single, SYN__TEMPLATE_FIRST, 0);
    SYN_TRY(check_template(tok, &tok->single, name, err));
    SYN_TRY(check_template(tok, &tok->pair, name, err));
    SYN_TRY(finish_added(tok, name, err));
    return tok->added.any_single_word ? syn__regex_new(&tok->word, "\\w", 2, false, err) : SYN_OK;
}

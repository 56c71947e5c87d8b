/* Opens a GPT-2 tokenizer (vocab.json, merges.txt) with added tokens and the tokens put around a
   text. Added tokens get ids as in transformers 5's GPT2Tokenizer: first the tokens of
   added_tokens_decoder, in the order of their ids, then the special tokens that are not among
   these. If tokenizer_config.json has no added_tokens_decoder, special_tokens_map.json,
   added_tokens.json and tokenizer.json are used instead. */
#include "models/tokenizer/tokenizer_files_private.h"

#include "syntorch/base/memory.h"

#include <stdlib.h>
#include <string.h>

/* ---- tokens in the order in which transformers adds them ---- */

static bool is_named(const syn__tokenizer_files *f, const syn__file_token *t) {
    for (int i = 0; i < SYN__NAMED_TOKENS; i++)
        if (syn__file_token_is(&f->named[i], t->text, t->bytes)) return true;
    const syn__file_tokens *const lists[] = {&f->map_more, &f->config_more};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < lists[k]->n; i++)
            if (syn__file_token_is(&lists[k]->at[i], t->text, t->bytes)) return true;
    return false;
}

static bool is_normalized(const syn__tokenizer_files *f, const syn__file_token *t) {
    return t->normalized_given ? t->normalized : !(t->special || is_named(f, t));
}

/* Whether transformers treats both tokens as equal. A token that is a string in the file never
   equals a token that is an object. */
static bool same_token(const syn__tokenizer_files *f, const syn__file_token *a,
                       const syn__file_token *b) {
    return syn__file_token_is(a, b->text, b->bytes) && a->is_object == b->is_object &&
           a->single_word == b->single_word && a->lstrip == b->lstrip && a->rstrip == b->rstrip &&
           is_normalized(f, a) == is_normalized(f, b);
}

/* Token i of all tokens that are not in added_tokens_decoder, in the order of transformers. */
static const syn__file_token *special(const syn__tokenizer_files *f, size_t i) {
    const syn__file_tokens *const lists[] = {&f->map_more, &f->config_more, &f->extra};
    if (i < SYN__NAMED_TOKENS) return &f->named[i];
    i -= SYN__NAMED_TOKENS;
    for (int k = 0; k < 3; k++) {
        if (i < lists[k]->n) return &lists[k]->at[i];
        i -= lists[k]->n;
    }
    return NULL;
}

static void set_flags(const syn__tokenizer_files *f, syn__added_token *token,
                      const syn__file_token *t) {
    token->given = t->id;
    token->single_word = t->single_word;
    token->lstrip = t->lstrip;
    token->rstrip = t->rstrip;
    token->normalized = is_normalized(f, t);
    token->special = t->special || is_named(f, t);
}

/* Adds a special token. A token that already exists keeps its id. It also keeps its flags if
   added_tokens_decoder has the token or if an earlier special token equals this one; otherwise it
   gets this one's flags. */
static syn_status put_special(const syn__tokenizer_files *f, syn__added *out, size_t i,
                              syn_error *err) {
    const syn__file_token *t = special(f, i);
    syn__added_token *token;
    const size_t before = out->n;
    if (!t->text || t->bytes == 0) return SYN_OK;
    SYN_TRY(syn__added_put(out, t->text, t->bytes, &token, err));
    if (out->n == before && token->given >= 0) return SYN_OK;
    for (size_t k = 0; out->n == before && k < i; k++)
        if (same_token(f, special(f, k), t)) return SYN_OK;
    set_flags(f, token, t);
    return SYN_OK;
}

static syn_status put_decoded(const syn__tokenizer_files *f, syn__added *out,
                              const syn__file_token *t, syn_error *err) {
    syn__added_token *token;
    const size_t before = out->n;
    if (t->bytes == 0) return SYN_OK;
    SYN_TRY(syn__added_put(out, t->text, t->bytes, &token, err));
    if (out->n == before)
        return SYN_FAIL(err, SYN_E_FORMAT, "%s: the added token \"%.40s\" has two ids, %d and %d",
                        f->folder, t->text, (int)token->given, (int)t->id);
    set_flags(f, token, t);
    return SYN_OK;
}

/* Compares by id. If several files give the same id, the token that was read last comes first. */
static int by_id(const void *a, const void *b) {
    const syn__file_token *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return x->order > y->order ? -1 : x->order < y->order;
}

static syn_status put_decoder(syn__tokenizer_files *f, syn__added *out, syn_error *err) {
    syn__file_tokens *list = &f->decoder;
    for (size_t i = 0; i < list->n; i++) list->at[i].order = i;
    if (list->n) qsort(list->at, list->n, sizeof *list->at, by_id);
    for (size_t i = 0; i < list->n; i++)
        if (i == 0 || list->at[i].id != list->at[i - 1].id)
            SYN_TRY(put_decoded(f, out, &list->at[i], err));
    return SYN_OK;
}

static syn_status collect(syn__tokenizer_files *f, syn__added *out, syn_error *err) {
    SYN_TRY(put_decoder(f, out, err));
    for (size_t i = 0; special(f, i); i++) SYN_TRY(put_special(f, out, i, err));
    return SYN_OK;
}

/* ---- opening ---- */

static int32_t find_in_vocab(const void *vocab, const char *text, size_t bytes) {
    return syn__vocab_find(vocab, text, bytes);
}

static syn_status read_vocabulary(syn_tokenizer *tok, const char *folder, syn_error *err) {
    char *path[2] = {NULL, NULL}, *data[2] = {NULL, NULL};
    size_t bytes[2];
    syn__vocab vocab = {0};
    syn_status status = SYN_OK;
    for (int i = 0; i < 2 && status == SYN_OK; i++)
        status = syn__tok_read_file(folder, i == 0 ? "vocab.json" : "merges.txt",
                                    SYN__BPE_MAX_FILE_BYTES, &path[i], &data[i], &bytes[i], err);
    if (status == SYN_OK)
        status = syn__bpe_read(&tok->bpe, &vocab, path[0], data[0], bytes[0], path[1], data[1],
                               bytes[1], err);
    if (status == SYN_OK)
        status =
            syn__tok_number_added(tok, find_in_vocab, &vocab, (int32_t)vocab.elems, path[0], err);
    syn__vocab_free(&vocab);
    for (int i = 0; i < 2; i++) {
        syn_free(data[i]);
        syn_free(path[i]);
    }
    return status;
}

static int32_t id_of(const syn_tokenizer *tok, const syn__file_token *t) {
    const syn__added_token *token =
        t->text ? syn__added_find(&tok->added, t->text, t->bytes) : NULL;
    return token ? token->id : -1;
}

/* Builds the template, unless a post_processor has set it. */
static void frame(syn_tokenizer *tok, const syn__tokenizer_files *f) {
    const int32_t bos = id_of(tok, &f->named[SYN__NAMED_BOS]),
                  eos = id_of(tok, &f->named[SYN__NAMED_EOS]);
    tok->bos = bos;
    tok->eos = syn_tokenizer_special(tok, SYN__BPE_END_OF_TEXT);
    tok->pair.n = 0; /* pairs are not defined for this tokenizer */
    if (tok->single.n > 0) return;
    if (f->add_bos && bos >= 0) (void)syn__template_add(&tok->single, bos, 0);
    (void)syn__template_add(&tok->single, SYN__TEMPLATE_FIRST, 0);
    if (f->add_eos && eos >= 0) (void)syn__template_add(&tok->single, eos, 0);
}

static syn_status check_vocabulary(const syn__tokenizer_files *f, const syn__bpe *bpe,
                                   syn_error *err) {
    if (!f->has_json || f->json_vocab < 0 || f->json_vocab == bpe->vocab_elems) return SYN_OK;
    return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                    "%s: vocab.json has %d tokens, but tokenizer.json has %lld; they must be equal",
                    f->folder, (int)bpe->vocab_elems, (long long)f->json_vocab);
}

/* Adds the steps of ByteLevel except the last one, which spells bytes: here words stay bytes. */
static syn_status add_steps(syn_tokenizer *tok, bool prefix_space, syn_error *err) {
    syn__step *step;
    SYN_TRY(syn__steps_add_byte_level(&tok->cuts, prefix_space, true, err));
    tok->cuts.n--;
    tok->spells = true;
    return syn__steps_add(&tok->decoders, SYN__DECODE_BYTES, &step, err);
}

static syn_status open_bpe(syn_tokenizer *tok, syn__tokenizer_files *f, syn_error *err) {
    SYN_TRY(syn__regex_ready(err));
    SYN_TRY(syn__tokenizer_files_read(f, err));
    SYN_TRY(add_steps(tok, f->prefix_space, err));
    SYN_TRY(collect(f, &tok->added, err));
    SYN_TRY(read_vocabulary(tok, f->folder, err));
    SYN_TRY(check_vocabulary(f, tok->bpe, err));
    frame(tok, f);
    return syn__tok_finish(tok, f->folder, err);
}

syn_status syn__tok_open_bpe(syn_tokenizer *tok, const char *folder, syn_error *err) {
    syn__tokenizer_files f = {.folder = folder, .json_vocab = -1, .tok = tok};
    tok->name = "gpt2-bpe";
    const syn_status status = open_bpe(tok, &f, err);
    syn__tokenizer_files_free(&f);
    return status;
}

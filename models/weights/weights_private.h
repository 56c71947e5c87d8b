/* Internal declarations that the weights*.c files share. */
#ifndef MODELS_WEIGHTS_PRIVATE_H
#define MODELS_WEIGHTS_PRIVATE_H

#include "models/family_private.h"
#include "models/weights/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum syn__weights_role {
    SYN__WEIGHTS_PARAMETER,
    SYN__WEIGHTS_HEAD,   /* a parameter that models can be created without */
    SYN__WEIGHTS_OTHER,  /* belongs to a head that no model of the library has */
    SYN__WEIGHTS_BUFFER, /* never read: constants that old versions of transformers saved */
    SYN__WEIGHTS_SCALES  /* of an FP8 matrix, with which they are read */
} syn__weights_role;

/* Returns the role of a tensor of a checkpoint. Writes its parameter name, NUL-terminated, to out;
   the parameter name is at most SYN__WEIGHTS_LONGER bytes longer than `name`. */
#define SYN__WEIGHTS_LONGER 2
syn__weights_role syn__weights_parameter_name(const syn_model_family *family, const char *name,
                                              char *out);

typedef struct syn__weights_entry {
    const char *name; /* parameter name */
    const syn_safetensors_tensor *tensor;
    const syn_safetensors_tensor *scales; /* of an FP8 matrix (weights_f8.c); otherwise NULL */
    syn__weights_role role;
} syn__weights_entry;

struct syn_weights {
    syn_safetensors *file;
    char *path, *text;           /* text: storage of the parameter names */
    syn__weights_entry *entries; /* in file order */
    syn__weights_entry **by_name;
    size_t n_entries;
    const syn_model_family *family;
    syn_dtype dtype;
};

/* Whether a parameter has the matrices of all experts of a layer; its name has a "*"
   (SYN__EXPERTS_- COLUMN). Checkpoints have one tensor per expert. syn__weights_expert_name writes
   the name of an expert's tensor, or of any other parameter, to `out`. */
bool syn__weights_of_experts(const char *name);
void syn__weights_expert_name(const char *name, int64_t expert, char *out, size_t out_bytes);
/* Writes the name of a parameter's tensor to `out`: its own, or that of the matrix of which it is a
   part. Returns the row of such a part, otherwise NULL. */
const syn__param_row *syn__weights_part_name(const syn_model_family *family, const char *parameter,
                                             char *out, size_t out_bytes);
/* The tensor of a parameter; NULL if the checkpoint has none. A second name of the parameter is
   looked up first, as in transformers. */
const syn__weights_entry *syn__weights_find(const syn_weights *weights, const char *parameter);
/* The same, but only for this name. */
const syn__weights_entry *syn__weights_entry_of(const syn_weights *weights, const char *name);

/* Describes the head that a parameter belongs to; NULL if it belongs to none. others: search only
   heads that no model of the library has. */
const char *syn__weights_purpose(const char *parameter, bool others);

/* syn__weights_is_float: whether the tensor's dtype can be converted to a parameter's dtype.
   syn__weights_widen converts n elements, from number `first` on, to f32. */
bool syn__weights_is_float(const syn_safetensors_tensor *t);
void syn__weights_widen(const syn_safetensors_tensor *t, int64_t first, float *out, size_t n);

/* ---- FP8 (weights_f8.c) ---- */

/* Rows and columns of the blocks of an FP8 matrix that have a scale. */
#define SYN__WEIGHTS_F8_BLOCK 128
/* The scales of a tensor; NULL if it is no FP8 matrix, or has no scales of the right shape. */
const syn_safetensors_tensor *syn__weights_f8_scales(const syn_safetensors *file,
                                                     const syn_safetensors_tensor *t);
/* Whether a tensor has the scales of an FP8 matrix. */
bool syn__weights_f8_is_scales(const syn_safetensors *file, const syn_safetensors_tensor *t);
/* Converts n elements of an FP8 matrix, from number `first` on, to dtype `to`. */
void syn__weights_f8_convert(const syn_safetensors_tensor *t, const syn_safetensors_tensor *scales,
                             int64_t first, size_t n, syn_dtype to, char *out);

/* ---- stacks (weights_stack.c) ---- */

/* A stack of a checkpoint: its numbers or, with scales, its blocks in MXFP4. */
typedef struct syn__weights_stack {
    const syn_safetensors_tensor *values, *scales;
} syn__weights_stack;
/* The specs of the tensors that have a parameter of shape `full`: as floats (without a meaningful
   dtype), and in MXFP4. */
syn_spec syn__weights_stack_spec(const syn__param_row *row, const syn_spec *full);
syn_spec syn__weights_mxfp4_spec(const syn__param_row *row, const syn_spec *full, bool scales);
/* Fills `data`, a shard of the parameter with elements of dtype `to`, from a stack. */
void syn__weights_unstack(const syn_weights *weights, const syn__weights_stack *stack,
                          const syn__param_row *row, const syn_spec *full, syn_shard shard,
                          syn_dtype to, char *data);
/* Copies a whole parameter to its places in a stack of its dtype. */
void syn__weights_stack_up(const syn__param_row *row, const syn_spec *full, const void *data,
                           void *stack);

/* Formats a shape: "[2, 3]". */
#define SYN__SHAPE_BYTES 200
const char *syn__shape_text(const int64_t *dims, int rank, char buf[SYN__SHAPE_BYTES]);

/* A shard as runs of consecutive elements. Run i has run_elems elements. It begins at element i *
   stride + offset of the full tensor and at element i * run_elems of the shard. */
typedef struct syn__weights_slices {
    int64_t runs, run_elems, stride, offset;
} syn__weights_slices;
syn__weights_slices syn__weights_slice(const syn_spec *full, syn_shard shard);

/* ---- writing ---- */

/* How a model's tensors are divided into files. A file has consecutive entries of at most `most`
   bytes together, or a single larger entry. */
typedef struct syn__weights_files {
    const char *folder;
    const syn_safetensors_entry *entries;
    size_t n_entries, n_files;
    uint64_t most;
} syn__weights_files;
syn__weights_files syn__weights_files_of(const char *folder, const syn_safetensors_entry *entries,
                                         size_t n_entries, uint64_t most);
/* Number of entries in the file that begins with entry `first`. */
size_t syn__weights_file_entries(const syn__weights_files *files, size_t first);
/* Opens file i for writing. */
syn_status syn__weights_file_open(syn_sink **out, const syn__weights_files *files, size_t i,
                                  syn_error *err) SYN_MUST_USE;
/* Writes the index of the files; does nothing for a single file. */
syn_status syn__weights_write_index(const syn__weights_files *files, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif

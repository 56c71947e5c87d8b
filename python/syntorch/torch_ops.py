"""What the graph needs to know about PyTorch's ops: names, categories, extents and bytes."""
import math

import torch

from ._core import c_text, lib, text

# Ops whose category neither PyTorch's tags nor the library's keywords give.
_categories = {}
for _category, _names in {
        "matmul": "baddbmm _scaled_mm",
        "embedding": "embedding embedding_dense_backward _embedding_bag",
        "data movement": "cat stack index index_select index_put index_put_ index_add index_add_ "
                         "index_copy index_copy_ gather scatter scatter_ scatter_add scatter_add_ "
                         "scatter_reduce scatter_reduce_ constant_pad_nd clone roll flip repeat "
                         "slice_backward select_backward slice_scatter select_scatter tril triu "
                         "upsample_bilinear2d upsample_nearest2d upsample_nearest2d_backward "
                         "upsample_bilinear2d_backward upsample_bicubic2d reflection_pad2d "
                         "arange zeros ones full zeros_like ones_like full_like new_zeros new_ones "
                         "new_full scalar_tensor zero_ fill_ sort as_strided_scatter "
                         "unfold_backward",
        "reduction": "max min amax amin prod any all cumsum cumprod topk var var_mean std "
                     "max_pool2d_with_indices max_pool2d_with_indices_backward avg_pool2d "
                     "avg_pool2d_backward linalg_vector_norm logsumexp nll_loss_forward "
                     "nll_loss2d_forward nll_loss_backward nll_loss2d_backward mse_loss",
}.items():
    _categories.update(dict.fromkeys(_names.split(), _category))

_products = {"mm", "addmm", "bmm", "baddbmm", "_scaled_mm"}
_allocations = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided",
                "empty_permuted", "lift_fresh"}


def name_of(func):
    """The op's name without overload and namespace aten: "addmm"."""
    name = str(getattr(func, "_overloadpacket", func))
    return name.removeprefix("aten.").replace(".", "::")


def is_allocation(func):
    return name_of(func) in _allocations


def reads_only_rows(name):
    """Whether the op reads only the rows of its first tensor that it returns."""
    return name in ("embedding", "index", "index_select", "gather")


def writes_only_rows(name):
    return name in ("index_add_", "index_put_", "_index_put_impl_", "index_copy_", "scatter_",
                    "scatter_add_", "scatter_reduce_")


def reads_target(name):
    """Whether an op in place reads the tensor that it overwrites."""
    return name not in ("copy_", "fill_", "zero_", "uniform_", "normal_", "bernoulli_",
                        "exponential_", "random_")


def bytes_of(tensor):
    """The bytes of a tensor; expanded dimensions count once."""
    if tensor.layout is not torch.strided:
        return tensor._nnz() * tensor.element_size() if hasattr(tensor, "_nnz") else 0
    elements = 1
    for size, stride in zip(tensor.shape, tensor.stride()):
        elements *= size if stride != 0 else min(size, 1)
    return elements * tensor.element_size()


def category_of(func, op, flops):
    """The category of an op that computes."""
    name, tags = name_of(func), getattr(func, "tags", ())
    if flops > 0:
        return "attention" if "attention" in name or "attn" in name else "matmul"
    if name in _categories:
        return _categories[name]
    if torch.Tag.pointwise in tags:
        return "elementwise"
    if torch.Tag.nondeterministic_seeded in tags:
        return "random"
    category = text(lib.syn_category_name(lib.syn_op_category(c_text(op))))
    return "other" if category in ("view", "matmul") else category


def _of_product(name, args, out):
    a, b = (args[1], args[2]) if name in ("addmm", "baddbmm") else (args[0], args[1])
    batch = a.shape[0] if a.dim() == 3 else 1
    return batch, a.shape[-2], b.shape[-1], a.shape[-1]


def _of_convolution(name, args, out):
    """A product with a row for each output position. The backward op computes a product for each
    gradient."""
    backward = name == "convolution_backward"
    images, weight = (args[1], args[2]) if backward else (args[0], args[1])
    transposed, groups = (args[7], args[9]) if backward else (args[6], args[8])
    result = args[0] if backward else out
    kernel = math.prod(weight.shape[2:])
    products = sum(map(bool, args[10][:2])) if backward else 1
    if transposed:  # each input position adds a kernel to the output
        positions, columns, inner = images, weight.shape[1] * kernel, weight.shape[0] // groups
    else:
        positions, columns, inner = result, weight.shape[0] // groups, weight.shape[1] * kernel
    rows = positions.shape[0] * math.prod(positions.shape[2:])
    return products * groups, rows, columns, inner


def extents_of(func, args, kwargs, out, flops):
    """(batch, rows, columns, inner) of a product, convolution or attention; zeros if unknown."""
    name = name_of(func)
    if flops == 0:
        return 0, 0, 0, 0
    if "scaled_dot_product" in name:
        queries, keys = args[1:3] if name.endswith("backward") else args[0:2]
        if queries.dim() != 4:
            return 0, 0, 0, 0
        return (queries.shape[0] * queries.shape[1], queries.shape[2], keys.shape[2],
                queries.shape[3])
    if name in _products:
        found = _of_product(name, args, out)
    elif name in ("convolution", "convolution_backward") and len(args) > 8:
        found = _of_convolution(name, args, out)
    else:
        return 0, 0, 0, 0
    return found if 2 * math.prod(found) == flops else (0, 0, 0, 0)

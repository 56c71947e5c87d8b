"""Writes the methods of Context that call ops: builders.py ops.h OUT.

Each builder of ops.h becomes a method with the header's comment as its docstring. Shapes use the
letters that the header explains."""
import re
import sys

# Tensors that an op may lack, and numbers that are usually 0.
OPTIONAL = {"bias", "mask", "keys", "sinks", "weight"}
ZERO = {"offset", "window", "first_row", "first"}
REQUIRED = {("layernorm", "bias"), ("layernorm", "weight"), ("rmsnorm", "weight"),
            ("rmsnorm_offset", "weight"), ("router_bias_update", "bias")}
# Pointers to tensors that an op only writes; it reads and replaces the others.
WRITTEN = {("route", "experts"), ("sort_by_expert", "sizes"), ("expert_order", "sizes"),
           ("clip_factor", "norm"), ("top_k", "indices")}
NO_GROUP = {"cross_entropy_unfused"}  # group NULL: one rank
ENUMS = {"syn_dtype": None, "syn_reduce": '"sum"'}  # with their default
BY_HAND = {"adamw_step"}  # contexts.py


def comments_and_builders(text):
    """Yields (comment, return type, name, arguments). A comment describes all declarations up to
    the next comment."""
    comment = ""
    pattern = re.compile(r"/\*(.*?)\*/|^(syn_tensor|void) syn_(\w+)\(([^;]*)\);", re.S | re.M)
    for match in pattern.finditer(text):
        if match.group(1) is not None:
            words = re.sub(r"\s+", " ", match.group(1)).strip()
            if not words.startswith("----"):
                comment = words
        else:
            yield comment, match.group(2), match.group(3), re.sub(r"\s+", " ", match.group(4))


# Where the comment of ops.h is that of several declarations or of a struct.
TEXTS = {"barrier": "Waits until all ranks of the group have arrived.",
         "recv": "Receives a tensor of this shape and dtype from the rank `peer` (global number); "
                 "tag >= 0, as in the send.",
         "dropout": "Dropout of x (B, ..., C): sets an element to zero with probability p and "
                    "divides the others by 1 - p. how: a dict with p, in [0, 1), seed, which "
                    "identifies this dropout in the model, and sample. keys: (B) i32, one key per "
                    "sample; None: how['sample'] + the sample's index in the batch."}


def in_python(comment, before):
    """A comment about C in terms of Python. before: the op that "the same" refers to."""
    comment = re.sub(r"SYN_NO_[A-Z]+|SYN_MEAN|NULL", "None", comment)
    comment = re.sub(r"SYN_MAX_LIST", "1000", comment)
    comment = re.sub(r"SYN_IGNORED_TARGET", "-100", comment)
    comment = re.sub(r"group->size", "the size of the group", comment)
    comment = re.sub(r"\*(\w+) (becomes|is|are|gets)", r"\1 \2", comment)
    comment = re.sub(r"in \*(\w+)", r"as the second result, \1", comment)
    return re.sub(r"^The same\b", f"The same as {before}", comment)


def docstring(comment):
    lines, line = [], ""
    for word in comment.replace("\\", "\\\\").replace("syn_", "").split():
        if len(line) + len(word) > 88:
            lines.append(line)
            line = ""
        line += (" " if line else "") + word
    lines.append(line)
    return '"""' + "\n        ".join(lines) + '"""'


class Builder:
    """A method: its parameters, the C arguments, and what it returns."""

    def __init__(self, result, name, arguments):
        self.name = name
        self.parameters, self.c, self.before, self.results = [], [], [], []
        if result == "syn_tensor":
            self.results.append("result")
        parts = [argument.strip() for argument in arguments.split(",")][1:]
        while parts:
            self.argument(parts)

    def argument(self, parts):
        type_, stars, name = re.match(r"((?:const )?\w+) (\**)(\w+)$", parts.pop(0)).groups()
        follows = parts[0] if parts else ""
        if type_ == "syn_tensor" and not stars:
            optional = name in OPTIONAL and (self.name, name) not in REQUIRED
            self.parameters.append((name, "None" if optional else None, "Tensor"))
            self.c.append(f"r.tensor({name!r}, {name}, {not optional})")
        elif type_ in ("syn_tensor", "const syn_tensor") and follows == "int n":
            parts.pop(0)
            self.parameters.append((name, None, "Sequence[Tensor]"))
            self.before.append(f"{name} = r.tensors({name!r}, {name})")
            self.c += [name, f"len({name})"]
            if type_ == "syn_tensor":
                self.results.append(f"list:{name}")
        elif type_ == "syn_tensor":
            written = (self.name, name) in WRITTEN
            if not written:
                self.parameters.append((name, None, "Tensor"))
            self.before.append(f"{name} = r.slot({name!r}, {'None' if written else name})")
            self.c.append(name)
            self.results.append(f"slot:{name}")
        elif type_ == "const syn_group":
            self.parameters.append((name, "None" if self.name in NO_GROUP else None, "str"))
            self.c.append(f"r.group({name}, {self.name not in NO_GROUP})")
        elif type_ == "const syn_spec":
            self.parameters += [("shape", None, "Sequence[int]"), ("dtype", '"f32"', "str")]
            self.c.append("_spec(shape, dtype)")
        elif stars and type_ in ("const int64_t", "const int"):
            counted = re.match(r"int (rank)$", follows)
            self.parameters.append((name, "None" if name in ("to", "from") else None,
                                    "Sequence[int]"))
            element = "int64_t" if "64" in type_ else "int"
            local = name
            if name == "from":  # a keyword of Python
                local = "from_"
                self.parameters[-1] = (local, "None", "Sequence[int]")
            if counted:
                parts.pop(0)
                self.before.append(f"{local} = r.integers({name!r}, {element!r}, {local})")
                self.c += [local, f"len({local})"]
            else:  # an entry for each rank of the group
                self.before.append(f"{local} = r.counts({name!r}, {local}, group)")
                self.c.append(local)
        elif stars:
            struct = type_.replace("const ", "")
            self.parameters.append((name, None, "dict"))
            self.c.append(f"r.struct({struct!r}, {name})")
        elif type_ in ENUMS:
            self.parameters.append((name, ENUMS[type_], "str"))
            self.c.append(f"_choice({type_!r}, {name!r}, {name})")
        elif type_ == "bool":
            self.parameters.append((name, "False", "bool"))
            self.c.append(f"_truth({name!r}, {name})")
        else:
            number = "float" if type_ == "double" else "int"
            self.parameters.append((name, "0" if name in ZERO else None, f"{number} | PerRank"))
            convert = "r.real" if type_ == "double" else "r.integer"
            self.c.append(f"{convert}({name!r}, {name})")

    def signature(self):
        """Parameters without a default come first. Those with a default are given by name if C has
        them before others."""
        required = [f"{name}: {kind}" for name, default, kind in self.parameters if default is None]
        optional = [f"{name}: {kind}{' | None' if default == 'None' else ''} = {default}"
                    for name, default, kind in self.parameters if default is not None]
        mixed = any(default is not None for _, default, _ in self.parameters[:len(required)])
        return ", ".join(["self"] + required + (["*"] if mixed else []) + optional)

    def returned(self):
        """The type of the result."""
        kinds = ["list[Tensor]" if r.startswith("list") else "Tensor" for r in self.results]
        return {0: "None", 1: kinds[0] if kinds else ""}.get(len(kinds),
                                                            f"tuple[{', '.join(kinds)}]")

    def code(self, comment):
        arguments = ", ".join(["r.ctx"] + self.c)
        # Each rank converts these values on its own.
        given = {name for name, _, _ in self.parameters}
        converted = [b.split(" = ")[0] for b in self.before if b.split(" = ")[0] in given]
        returned = ", ".join({"list": f"[_id(t) for t in {r[5:]}]",
                              "slot": f"_id({r[5:]}[0])"}.get(r[:4], "_id(result)")
                             for r in self.results)
        return "\n".join(
            [f"    def {self.name}({self.signature()}) -> {self.returned()}:",
             f"        {docstring(comment)}",
             "        def build(" + ", ".join(["r"] + [f"{c}={c}" for c in converted]) + "):"] +
            [f"            {line}" for line in self.before] +
            [f"            result = lib.syn_{self.name}({arguments})" if "result" in self.results
             else f"            lib.syn_{self.name}({arguments})",
             f"            return [{returned}]",
             "        return self._build(build)"])


def main():
    header, out = sys.argv[1:]
    with open(header, encoding="utf-8") as file:
        text = file.read()
    text = text[text.index("SYN_API_BEGIN"):]
    methods, last, before = [], "", ""
    for comment, result, name, arguments in comments_and_builders(text):
        if comment != last:  # a new comment may refer to the op before it
            last, of = comment, before
        if name not in BY_HAND:
            words = TEXTS.get(name) or in_python(comment, of)
            methods.append(Builder(result, name, arguments).code(words))
        before = name
    with open(out, "w", encoding="utf-8") as file:
        file.write('"""The ops as methods of Context; written by builders.py from ops.h."""\n'
                   "from __future__ import annotations\n\n"
                   "from typing import Any, Sequence\n\n"
                   "from ._core import lib\n"
                   "from ._values import PerRank, Tensor, _choice, _id, _spec, _truth\n\n\n"
                   "class Builders:\n    def _build(self, build: Any) -> Any:\n"
                   "        raise NotImplementedError\n\n" + "\n\n".join(methods) + "\n")


if __name__ == "__main__":
    main()

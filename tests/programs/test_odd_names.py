"""Tests names that XML forbids, that graphviz would interpret, or that are too long: every export
to SVG and GraphML succeeds, and its result is XML that Python's expat parser reads."""
import xml.etree.ElementTree as ET

from inference_runs import *  # noqa: F403

SYNTORCH = os.path.join(BUILD, "syntorch")
# Characters that XML 1.0 forbids even as references; characters that it allows but that other
# programs handle wrongly; entities, markup and escapes; long names; None for an empty name.
ODD = ["\ufffe", "\uffff", "x\ufffey\uffffz", "\x01\x08\x0b\x0c\x0e\x1f",
       "\x7f\x85\u2028\ud7ff\ue000\ufdd0\U0001fffe\U0010ffff\ufeff\u202e",
       "&#65535;&#1;&#x0;&bogus;&", "<b>\"'></svg>]]>--><!--", "\\N\\n\\\\", "\t\r\n", "|{}%s%n",
       "\u0301" * 50, "a" * 5000, "\uffff" * 3000, "/", None]


def spoiled(o, odd, keys):
    """Returns a copy of the graph with `odd` added to the names under these keys. If odd is None,
    the names are empty."""
    if isinstance(o, dict):
        return {k: spoiled(v, odd, keys) if k not in keys or not isinstance(v, str)
                else v + odd if odd is not None else "" for k, v in o.items()}
    return [spoiled(v, odd, keys) for v in o] if isinstance(o, list) else o


def test_every_picture_is_made():
    formats = ["svg", "svg --comm", "graphml"] if shutil.which("neato") else ["graphml"]
    with Folder() as f:
        expect_ok(f.run("--device", "meta", "--tp", 2, "--visualize_trace", "--quiet",
                        "--num_output_tokens", 2, "--out_dir", "out"))
        recorded = load_json(f / "out/tensor_trace_graph.json")
        for odd in ODD:
            graph = spoiled(recorded, odd, ("name", "scope", "label", "op", "model", "program"))
            f.write("odd.json", json.dumps(graph))
            for how in formats:
                output = "odd." + how.split()[0]
                command = [SYNTORCH, "export", "--input", "odd.json", "--output", output,
                           *how.split()[1:]]
                if "svg" in how:
                    command += ["--title", "a title" + odd if odd is not None else ""]
                r = subprocess.run(command, cwd=f.path, env=ENV, capture_output=True, timeout=HANGS)
                assert r.returncode == 0, f"{str(odd)[:20]!r} as {how}: {text_of(r)[:300]}"
                root = ET.parse(f / output).getroot()
                assert len(list(root.iter())) > 100, f"{str(odd)[:20]!r} as {how}: nothing is drawn"


main(globals())

#!/usr/bin/env python3
"""Makes router_mixtral.safetensors and router_deepseek_v3.safetensors: the losses of routers, and
the gradients of a training loss with them, of PyTorch and transformers in f64, for tiny_mixtral and
tiny_deepseek_v3. Made with torch 2.15 and transformers 5.24.

inputs and labels are those of step 0 in make_training_fixture.py. aux and z are the sums over the
layers, with the coefficients below: the auxiliary loss as in Megatron-LM's
switch_load_balancing_loss_func, per layer, and the z-loss as in its z_loss_func. loss is the sum of
the model's loss and of both, and grad.NAME are its gradients, by the names of make_moe_fixture.py.
bias.NAME is a router's bias after an update with the rate below, as in Megatron-LM's
get_updated_expert_bias.
"""
import pathlib
import torch
import transformers
from make_moe_fixture import renamed
from make_training_fixture import batch, loss_of
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent
AUX, Z, RATE = 0.5, 0.125, 0.03125  # large, so that a wrong factor is seen


def make(name, cls, router):
    model = cls.from_pretrained(HERE / f"tiny_{name}", attn_implementation="eager",
                                experts_implementation="eager").double().eval()
    sums, out = {"aux": 0, "z": 0}, {}

    def add(module, args, output, layer):
        x = args[0].reshape(-1, args[0].shape[-1])
        logits, chosen = x @ module.weight.T, output[2]
        n, k = chosen.shape
        experts = logits.shape[1]
        counts = torch.bincount(chosen.flatten(), minlength=experts).double()
        if name == "mixtral":
            probabilities = logits.softmax(dim=-1)
        else:
            scores = logits.sigmoid()
            probabilities = scores / (scores.sum(dim=-1, keepdim=True) + 1e-20)
            bias = module.e_score_correction_bias
            out[f"bias.{layer}.e_score_correction_bias"] = \
                bias + RATE * torch.sign(counts.mean() - counts)
        sums["aux"] += AUX * experts / (k * n * n) * (probabilities.sum(dim=0) * counts).sum()
        sums["z"] += Z * logits.logsumexp(dim=-1).square().mean()

    for layer, module in model.named_modules():
        if type(module).__name__ == router:
            module.register_forward_hook(
                lambda *call, layer=layer: add(*call, layer))
    b = batch(0, model.config.vocab_size, False)
    loss = loss_of(model, b, False) + 0
    loss = loss + sums["aux"] + sums["z"]
    loss.backward()
    print(name, loss.item(), sums["aux"].item(), sums["z"].item())
    grads = {key: p.grad.clone() for key, p in model.named_parameters()}
    out |= {f"grad.{key}": value for key, value in renamed(grads, name).items()}
    out |= {key: value.detach().reshape(1) for key, value in {"loss": loss, **sums}.items()}
    out = {key: value.float() for key, value in out.items()}
    out |= {f"{key}.0": b[key].to(torch.int32).contiguous() for key in ("ids", "labels")}
    save_file(out, HERE / f"router_{name}.safetensors")


if __name__ == "__main__":
    make("mixtral", transformers.MixtralForCausalLM, "MixtralTopKRouter")
    make("deepseek_v3", transformers.DeepseekV3ForCausalLM, "DeepseekV3TopkRouter")

"""Teaching example: the way of tokens to their experts and back; token_to_experts.c in Python,
without data. docs/learn/6-experts-and-contexts.md explains the picture."""
import syntorch

RANKS, TOKENS, EXPERTS, CHOSEN, WIDTH = 2, 4, 4, 2, 2
OWN = EXPERTS // RANKS
ROWS = TOKENS * CHOSEN  # of a rank; without data, each rank gets as many

with syntorch.Context(dp=RANKS) as s:
    x = s.input("tokens", (TOKENS, WIDTH))
    scores = s.input("scores", (TOKENS, EXPERTS))
    experts = s.input("experts", (OWN, WIDTH, WIDTH))
    weights, chosen = s.route(scores, dict(k=CHOSEN, normalize=True, groups=1, top_groups=1,
                                           scale=1))
    places, sizes = s.sort_by_expert(chosen, EXPERTS)
    rows = s.moe_permute(x, places, CHOSEN)

    told = s.all_gather(sizes, 0, "dp")
    equal = dict(to=[ROWS // RANKS] * RANKS, from_=[ROWS // RANKS] * RANKS)
    rows = s.name(s.all_to_all(rows, ROWS, "dp", **equal), "dispatch")

    table = s.reshape(told, (RANKS, EXPERTS))
    order, own = s.expert_order(table, OWN, ROWS, first=s.per_rank(lambda rank: rank * OWN))
    rows = s.moe_permute(rows, order, 1)  # sorted by expert, whatever rank they are from
    rows = s.grouped_linear(rows, experts, own)
    rows = s.moe_unpermute(rows, order, ROWS, 1)

    rows = s.name(s.all_to_all(rows, ROWS, "dp", **equal), "return")
    w = s.moe_permute(s.reshape(weights, (ROWS, 1)), places, 1)
    s.moe_unpermute(s.mul(rows, w), places, TOKENS, CHOSEN)
s.trace().svg(comm=True, title="Tokens to experts and back").save("token_to_experts.svg")

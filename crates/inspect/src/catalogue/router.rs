//! Faults of a mixture's router: which experts are chosen, and what they count for (section A6 of the catalogue, entries 68
//! and 69).

use candor_ops::{Gate, Router};

use super::{
    rotary::bf16,
    row::{FACTORS, ROW},
};
use crate::Kind;
use crate::fault::{Edit, Fault};
use crate::replay::{Choice, Matrix, Place, Weighing};

/// Another gate in place of this one.
fn swap(router: &mut Router, gate: Gate, other: Gate) -> bool {
    let hit = router.gate == gate;
    if hit {
        router.gate = other;
    }
    hit
}

/// Weighs the chosen otherwise; `false` where the router has a way of its own.
fn weighed(choice: &mut Choice, weighing: Weighing) -> bool {
    choice.weighing = weighing;
    !matches!(choice.router.gate, Gate::SparseMixer(_))
}

/// The bias of the product that gives the router's logits.
fn logits_bias(place: &Place<'_>) -> Option<Vec<f32>> {
    match &place.graph.nodes[*place.node.inputs.first()?].kind {
        Kind::Bias(bias) => Some(Matrix::decode(bias).values),
        _ => None,
    }
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "expert-weights-not-normalized",
        entry: "68",
        edits: &[Edit::Route(|choice, _| std::mem::take(&mut choice.router.normalized))],
        cause: "the weights of the chosen experts are not divided by their sum",
        remedy: "divide them where the architecture does (norm_topk_prob, expert_weights_norm)",
        source: "lablup/mlxcel#391, Lightning-AI/litgpt#2013",
        ..ROW
    },
    Fault {
        name: "expert-weights-normalized",
        entry: "68",
        edits: &[Edit::Route(|choice, _| {
            let Router { gate, normalized, .. } = choice.router;
            choice.router.normalized = true;
            // What comes from a softmax over the chosen has a sum of 1.
            !normalized && gate != Gate::SoftmaxOfChosen
        })],
        cause: "the weights of the chosen experts are divided by their sum, the architecture keeps them as they are",
        remedy: "divide them only where the architecture does (norm_topk_prob, expert_weights_norm)",
        source: "sgl-project/sglang#35160",
        ..ROW
    },
    Fault {
        name: "experts-softmax-over-all",
        entry: "68",
        edits: &[Edit::Route(|choice, _| swap(&mut choice.router, Gate::SoftmaxOfChosen, Gate::Softmax))],
        cause: "the softmax runs over all experts, not over the chosen ones",
        remedy: "choose by logits, then take the softmax of the chosen logits",
        source: "leonickson1/Swiftlet#6",
        ..ROW
    },
    Fault {
        name: "experts-softmax-for-sigmoid",
        entry: "69",
        edits: &[Edit::Route(|choice, _| swap(&mut choice.router, Gate::Sigmoid, Gate::Softmax))],
        cause: "experts are weighed by a softmax instead of a sigmoid of each",
        remedy: "read expert_gating_func",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "expert-weights-in-another-order",
        entry: "69",
        variants: &[0.0, 1.0],
        edits: &[Edit::Route(|choice, place| {
            let used = choice.router.used;
            choice.order = match place.variant {
                0.0 => |rank, used| used - 1 - rank,
                _ => |rank, used| (rank + 1) % used,
            };
            // Of two both are the same.
            used > if place.variant == 0.0 { 1 } else { 2 }
        })],
        cause: "the weights of the chosen experts are in another order than the experts (0: reversed, 1: one on)",
        remedy: "sort experts and their weights together",
        source: "xberg-io/xberg#1211",
        ..ROW
    },
    Fault {
        name: "expert-weights-by-softmax",
        entry: "69",
        edits: &[Edit::Route(|choice, _| {
            let sigmoid = choice.router.gate == Gate::Sigmoid;
            sigmoid && weighed(choice, Weighing::Softmax)
        })],
        cause: "experts are chosen by the sigmoid and its bias, and weighed by the softmax over all",
        remedy: "weigh the chosen with the sigmoid of their logits, without the bias",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "experts-sigmoid-for-softmax",
        entry: "69",
        edits: &[Edit::Route(|choice, _| {
            let gate = choice.router.gate;
            choice.router.gate = Gate::Sigmoid;
            matches!(gate, Gate::Softmax | Gate::SoftmaxOfChosen)
        })],
        cause: "experts are weighed by a sigmoid of each instead of a softmax",
        remedy: "read expert_gating_func",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "expert-scale-missing",
        entry: "69",
        edits: &[Edit::Route(|choice, _| std::mem::replace(&mut choice.router.scale, 1.0) != 1.0)],
        cause: "the weights of experts are not multiplied with the file's factor",
        remedy: "multiply with expert_weights_scale (routed_scaling_factor), at last",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "expert-bias-missing",
        entry: "69",
        edits: &[Edit::Route(|choice, _| choice.bias.take().is_some())],
        cause: "experts are chosen without the bias of the file",
        remedy: "add exp_probs_b to what experts are chosen by, and not to their weights",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "expert-groups-ignored",
        entry: "69",
        edits: &[Edit::Route(|choice, _| {
            let groups = std::mem::replace(&mut choice.router.groups, (1, 1));
            groups.1 < groups.0
        })],
        cause: "experts are chosen from all groups",
        remedy: "choose expert_group_used_count groups by their two best experts first",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "experts-best-passed-over",
        entry: "69",
        variants: &[1.0, 2.0],
        edits: &[Edit::Route(|choice, place| {
            choice.passed_over = place.variant as usize;
            let Router { experts, used, groups, .. } = choice.router;
            experts / groups.0.max(1) * groups.1 >= used + choice.passed_over
        })],
        cause: "the {} best experts are passed over, the next ones are taken",
        remedy: "count ranks from 0: the best expert is the first",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "experts-worst-chosen",
        entry: "69",
        edits: &[Edit::Route(|choice, _| {
            choice.rank = |_, x| -x;
            choice.router.used < choice.router.experts
        })],
        cause: "experts are sorted in ascending order: those that the router wants least are taken",
        remedy: "sort in descending order before the first are taken",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "experts-first-ones-chosen",
        entry: "69",
        edits: &[Edit::Route(|choice, _| {
            choice.rank = |expert, _| -(expert as f64);
            choice.router.used < choice.router.experts
        })],
        cause: "the first experts are taken whatever the router says",
        remedy: "take the indices of the greatest numbers, not the first indices",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "expert-count",
        entry: "69",
        variants: &[1.0, -1.0],
        edits: &[Edit::Route(|choice, place| {
            let Router { experts, used, .. } = choice.router;
            let other = used.checked_add_signed(place.variant as isize).filter(|&used| used > 0 && used <= experts);
            choice.router.used = other.unwrap_or(used);
            other.is_some()
        })],
        cause: "{} experts more than the file says are taken for each token",
        remedy: "read expert_used_count (num_experts_per_tok)",
        source: "theroyallab/tabbyAPI#42",
        ..ROW
    },
    Fault {
        name: "experts-weighed-alike",
        entry: "69",
        edits: &[Edit::Route(|choice, _| weighed(choice, Weighing::Alike))],
        cause: "all chosen experts count the same",
        remedy: "multiply each expert's result with its weight",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "expert-weights-missing",
        entry: "69",
        edits: &[Edit::Route(|choice, _| weighed(choice, Weighing::One))],
        cause: "the chosen experts are added without weights",
        remedy: "multiply each expert's result with its weight",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "expert-weights-of-logits",
        entry: "69",
        edits: &[Edit::Route(|choice, _| weighed(choice, Weighing::Logits))],
        cause: "the chosen experts are weighed with the router's logits",
        remedy: "weigh with the softmax (or sigmoid) of the logits",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "expert-bias-in-weights",
        entry: "69",
        edits: &[Edit::Route(|choice, _| {
            let biased = choice.bias.is_some();
            biased && weighed(choice, Weighing::Ranked)
        })],
        cause: "the bias that experts are chosen by is in their weights, too",
        remedy: "exp_probs_b is for the choice alone; weights are the router's probabilities without it",
        source: "MetaX-MACA/vLLM-metax#284",
        ..ROW
    },
    Fault {
        name: "router-bias-for-choice-alone",
        entry: "69",
        edits: &[Edit::Route(|choice, place| {
            choice.unweighed = logits_bias(place);
            choice.unweighed.is_some()
        })],
        cause: "the bias of the router's product is in the choice of experts, and not in their weights",
        remedy: "the bias belongs to the logits: it is in both",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "experts-softmax-twice",
        entry: "69",
        edits: &[Edit::Route(|choice, _| {
            choice.twice = true;
            !matches!(choice.router.gate, Gate::SparseMixer(_) | Gate::SoftmaxOfChosen)
        })],
        cause: "the function that makes weights of the router's logits is applied twice",
        remedy: "apply the softmax (or sigmoid) to logits once",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "expert-groups-by-best",
        entry: "69",
        edits: &[Edit::Route(|choice, _| {
            choice.judges = 1;
            let Router { experts, groups, .. } = choice.router;
            groups.1 < groups.0 && experts / groups.0 > 1
        })],
        cause: "a group of experts is judged by its best expert instead of its two best",
        remedy: "DeepSeek V3 adds the two best of a group; V2 took the best",
        source: "vllm-project/vllm#13474, NVIDIA/Megatron-LM#1378",
        ..ROW
    },
    Fault {
        name: "expert-group-count",
        entry: "69",
        variants: &[1.0, -1.0],
        edits: &[Edit::Route(|choice, place| {
            let Router { experts, used, groups, .. } = choice.router;
            let other = groups.1.saturating_add_signed(place.variant as isize);
            choice.router.groups.1 = other;
            let room = other > 0 && other < groups.0 && experts / groups.0 * other >= used;
            room && groups.1 < groups.0
        })],
        cause: "experts are chosen from {} groups more than the file says",
        remedy: "read expert_group_used_count (topk_group)",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "expert-scale",
        entry: "69",
        variants: &[4.0, 0.5],
        fit: Some(FACTORS),
        edits: &[Edit::Route(|choice, place| {
            let old = std::mem::replace(&mut choice.router.scale, place.variant as f32);
            let named = [1.0, old, old * old, 1.0 / old];
            named.iter().all(|&other| (place.variant as f32 / other - 1.0).abs() > 1e-4)
        })],
        cause: "the weights of experts are multiplied with {}, which is not the file's factor",
        remedy: "multiply with expert_weights_scale (routed_scaling_factor), at last",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "expert-scale-twice",
        entry: "69",
        edits: &[Edit::Route(|choice, _| {
            let old = choice.router.scale;
            choice.router.scale *= old;
            old != 1.0
        })],
        cause: "the weights of experts are multiplied with the file's factor twice",
        remedy: "multiply with expert_weights_scale once: on the weights, or on the experts' sum",
        source: "sgl-project/sglang#35152, kvcache-ai/sglang#86",
        ..ROW
    },
    Fault {
        name: "router-logits-bf16",
        entry: "69",
        edits: &[Edit::Route(|choice, _| {
            choice.logit = |x| bf16(x);
            true
        })],
        cause: "the router's logits are rounded to bfloat16, so that other experts may be chosen",
        remedy: "compute the router in f32",
        source: "vllm-project/vllm#14027, wtdcode/vllm-backport#65",
        ..ROW
    },
    Fault {
        name: "router-logits-coarse",
        entry: "69",
        edits: &[Edit::Route(|choice, _| {
            choice.logit = |x| (4.0 * x).round_ties_even() / 4.0;
            true
        })],
        cause: "the router's logits are rounded to quarters: they went through a number of few bits",
        remedy: "compute the router in f32",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "expert-bias-on-logits",
        entry: "69",
        edits: &[Edit::Route(|choice, _| {
            choice.bias_on_logits = true;
            choice.bias.is_some() && !matches!(choice.router.gate, Gate::SparseMixer(_))
        })],
        cause: "the bias that experts are chosen by is added to the router's logits, before the sigmoid",
        remedy: "add exp_probs_b to the sigmoid's results, for the choice alone",
        source: "DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2",
        ..ROW
    },
    Fault {
        name: "expert-groups-in-turn",
        entry: "69",
        edits: &[Edit::Route(|choice, _| {
            choice.groups_in_turn = true;
            let Router { experts, groups, .. } = choice.router;
            groups.1 < groups.0 && experts / groups.0 > 1
        })],
        cause: "expert i is counted to the group i modulo their number, not to a run of neighbours",
        remedy: "a group is a run of experts: the first n / groups, and so on",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "experts-of-first-token-for-all",
        entry: "69",
        edits: &[Edit::Route(|choice, place| {
            let prompt = place.tokens.prompt;
            choice.chosen_by = Box::new(move |row| if row < prompt { 0 } else { row });
            prompt > 1 && choice.router.used < choice.router.experts
        })],
        cause: "all tokens of a call go through the experts that its first token has chosen",
        remedy: "each token chooses its own experts",
        source: "a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "expert-capacity",
        entry: "69",
        edits: &[Edit::Route(|choice, place| {
            choice.capacity = Some(place.tokens.prompt);
            place.tokens.prompt > 1
        })],
        cause: "an expert takes no more than its fair share of a call's tokens: later ones get nothing from it",
        remedy: "drop no tokens: a capacity belongs to training (Switch Transformer)",
        source: "Fedus et al. 2021, arXiv:2101.03961; a fault of routers in general",
        ..ROW
    },
    Fault {
        name: "expert-scale-inverted",
        entry: "69",
        edits: &[Edit::Route(|choice, _| {
            let old = choice.router.scale;
            choice.router.scale = 1.0 / old;
            old != 1.0
        })],
        cause: "the weights of experts are divided by the file's factor",
        remedy: "multiply with expert_weights_scale (routed_scaling_factor), at last",
        source: "a fault of routers in general",
        ..ROW
    },
];

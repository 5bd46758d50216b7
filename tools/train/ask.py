"""Ask a checkpoint.

    python ask.py --checkpoint checkpoint.pt --tokenizer tokenizer.model "Hello, how are you?"
    python ask.py ... --raw "Once upon a time"
    python ask.py ... --prompts heldout/prompts.json --write transcript.json

Greedy unless --temperature is given; sampling then goes through top-k, top-p and
min-p, as in Candor. With --round-q8 the weights are rounded to Q8_0 first, as in
the exported file.
"""
import argparse
import json
from pathlib import Path

import torch

import vocabulary
from chat_format import END, encode_chat
from model import Config, Model


def load(path, round_q8=False):
    data = torch.load(path, map_location="cpu", weights_only=True)
    model = Model(Config(**data["config"]))
    model.load_state_dict(data["model"])
    if round_q8:
        from gguf import GGMLQuantizationType
        from gguf.quants import dequantize, quantize
        q8 = GGMLQuantizationType.Q8_0
        for p in model.parameters():
            if p.dim() == 2:
                p.data = torch.from_numpy(dequantize(quantize(p.detach().numpy(), q8), q8))
    return model.eval()


def choose(logits, args, generator):
    if args.temperature <= 0:
        return int(logits.argmax())
    p = torch.softmax(logits / args.temperature, -1)
    values, order = p.sort(descending=True)
    values, order = values[:args.top_k], order[:args.top_k]
    values = values / values.sum()
    keep = (values.cumsum(0) - values < args.top_p) & (values >= args.min_p * values[0])
    values = values * keep
    return int(order[torch.multinomial(values, 1, generator=generator)])


@torch.no_grad()
def generate(model, ids, end, args, generator):
    cache, at, out = model.new_cache(), 0, []
    step = torch.tensor([ids])
    while at + step.shape[1] < model.cfg.context and len(out) < args.n:
        logits = model(step, cache, at)[0, -1].float()
        at += step.shape[1]
        token = choose(logits, args, generator)
        if token in end:
            break
        out.append(token)
        step = torch.tensor([[token]])
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--checkpoint", required=True)
    ap.add_argument("--tokenizer", required=True)
    ap.add_argument("text", nargs="*", help="each is a conversation of its own")
    ap.add_argument("--raw", action="store_true", help="continue the text instead of chatting")
    ap.add_argument("--prompts", type=Path, help="a file like heldout/prompts.json")
    ap.add_argument("--write", type=Path, help="write the answers as JSON")
    ap.add_argument("-n", type=int, default=400)
    ap.add_argument("--temperature", type=float, default=0.0)
    ap.add_argument("--top-k", type=int, default=40)
    ap.add_argument("--top-p", type=float, default=0.95)
    ap.add_argument("--min-p", type=float, default=0.05)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--round-q8", action="store_true")
    args = ap.parse_args()
    torch.set_num_threads(args.threads)
    sp = vocabulary.load(args.tokenizer)
    model = load(args.checkpoint, args.round_q8)
    generator = torch.Generator().manual_seed(args.seed)
    end = {sp.piece_to_id(END), sp.eos_id()}

    def answer(ids):
        return sp.decode(generate(model, ids, end, args, generator))

    prompts = [dict(id=str(i), turns=[t]) for i, t in enumerate(args.text)]
    if args.prompts:
        prompts += json.loads(args.prompts.read_text())["prompts"]
    done = []
    for p in prompts:
        if args.raw:
            text = p["turns"][0]
            print(text + answer([sp.bos_id()] + sp.encode(text)) + "\n")
            continue
        messages = [("system", p["system"])] if "system" in p else []
        replies = []
        print(f"[{p['id']}]")
        for turn in p["turns"]:
            messages.append(("user", turn))
            reply = answer(encode_chat(sp, messages, generate=True)[0])
            messages.append(("assistant", reply))
            replies.append(reply)
            print(f"> {turn}\n{reply}", flush=True)
        done.append(dict(id=p["id"], turns=p["turns"], replies=replies))
    if args.write:
        sampling = dict(temperature=args.temperature)
        if args.temperature > 0:
            sampling.update(top_k=args.top_k, top_p=args.top_p, min_p=args.min_p, seed=args.seed)
        args.write.write_text(json.dumps(dict(sampling=sampling, q8_0=args.round_q8, answers=done), indent=1) + "\n")


if __name__ == "__main__":
    main()

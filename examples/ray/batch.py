"""Answers a file of requests by several `candor serve`, over Ray Data's HTTP processor. README.md says more."""

import argparse
import asyncio
import json
import os
import zlib

import aiohttp
import ray
from ray.data.llm import HttpRequestProcessorConfig, build_processor


class Reply:
    """A response with its status, which the processor would not hand on."""

    def __init__(self, status, reason, text):
        self.status, self.reason, self.text = status, reason, text

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass

    async def json(self):
        return {"status": self.status, "text": self.text}


class Session:
    """Sends each row to its own address, all rows of a batch at once. Bodies come as text: Arrow would give all of them all fields."""

    async def __aenter__(self):
        self.session = await aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)).__aenter__()
        return self

    async def __aexit__(self, *how):
        await self.session.__aexit__(*how)

    def post(self, url, headers, data):
        row = json.loads(data)
        return asyncio.ensure_future(self.send(row["url"], headers, row["body"]))

    async def send(self, url, headers, body):
        async with self.session.post(url, headers=headers, data=body.encode()) as response:
            return Reply(response.status, response.reason, await response.text())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("requests")
    parser.add_argument("answers")
    parser.add_argument("servers", nargs="+", metavar="SERVER")
    parser.add_argument("--together", type=int, default=16, help="requests at once for each server")
    args = parser.parse_args()
    servers = [server.rstrip("/") for server in args.servers]

    def understood(row):
        line = json.loads(row["text"])
        if line["method"] != "POST":
            raise ValueError(f"{line['custom_id']}: expected POST, got {line['method']}")
        server = servers[zlib.crc32(line["custom_id"].encode()) % len(servers)]
        body = json.dumps(line["body"], ensure_ascii=False)
        return {"custom_id": line["custom_id"], "payload": {"url": server + line["url"], "body": body}}

    def answered(row):
        reply = row["http_response"]
        return {"custom_id": row["custom_id"], "status": reply["status"], "text": reply["text"]}

    key = os.environ.get("CANDOR_API_KEY")
    config = HttpRequestProcessorConfig(
        url=servers[0],
        headers={"Authorization": f"Bearer {key}"} if key else None,
        batch_size=args.together * len(servers),
        concurrency=1,
        max_retries=10,
        session_factory=Session,
    )
    ray.init(log_to_driver=False)
    rows = ray.data.read_text(args.requests, drop_empty_lines=True)
    rows = build_processor(config, preprocess=understood, postprocess=answered)(rows)
    with open(args.answers, "w", encoding="utf-8") as answers:
        for number, row in enumerate(rows.iter_rows()):
            body = json.loads(row["text"])
            response = {"status_code": row["status"], "request_id": f"req_{number}", "body": body}
            line = {"id": f"batch_req_{number}", "custom_id": row["custom_id"], "response": response, "error": None}
            answers.write(json.dumps(line, ensure_ascii=False) + "\n")


main()

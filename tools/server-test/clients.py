"""Asks `candor serve` by the clients of OpenAI, Anthropic and Ollama, streaming and not, and asserts what comes back.

All endpoints answer by one model, so what one says is what the others have to say. OpenAI's client for Node is asked by the script
SCRIPT. Usage: clients.py CANDOR SCRIPT
"""

import base64
import json
import os
import shutil
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anthropic
import httpx
import ollama
import openai
import trustme
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from server import ENCODER, KEY, Server

MESSAGES = [{"role": "user", "content": "Tell me a story about a cat."}]
TOKENS = 24
SHAPE = {"enum": ["cat", "dog"]}


def refused(kind, call, *args, **kwargs):
    """What a call is refused with."""
    try:
        call(*args, **kwargs)
    except kind as error:
        return error
    raise AssertionError("it was not refused")


def openai_endpoints(server):
    """What the chat says, for the others to compare with."""
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0)
    model = client.models.list().data[0].id
    chat = {"model": model, "messages": MESSAGES, "max_tokens": TOKENS}
    whole = client.chat.completions.create(**chat)
    said, usage = whole.choices[0].message.content, whole.usage
    assert said and whole.choices[0].finish_reason in ("stop", "length")
    assert 0 < usage.completion_tokens <= TOKENS
    chunks = list(client.chat.completions.create(**chat, stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == said
    again = chunks[-1].usage
    assert (again.prompt_tokens, again.completion_tokens) == (usage.prompt_tokens, usage.completion_tokens)
    # The same conversation is not read again.
    assert usage.prompt_tokens_details.cached_tokens < again.prompt_tokens_details.cached_tokens < again.prompt_tokens

    text = {"model": model, "prompt": "Once upon a time", "max_tokens": TOKENS}
    continued = client.completions.create(**text).choices[0].text
    assert "".join(chunk.choices[0].text for chunk in client.completions.create(**text, stream=True)) == continued

    echoed = client.completions.create(**text, echo=True, logprobs=1).choices[0]
    assert echoed.text == text["prompt"] + continued
    assert echoed.logprobs.token_logprobs[0] is None and all(value <= 0 for value in echoed.logprobs.token_logprobs[1:])

    ask = {"model": model, "input": MESSAGES[0]["content"], "max_output_tokens": TOKENS}
    response = client.responses.create(**ask)
    assert response.output_text == said, (response.output_text, said)
    assert response.usage.input_tokens == usage.prompt_tokens
    assert response.usage.output_tokens == usage.completion_tokens
    assert response.status in ("completed", "incomplete")
    with client.responses.stream(**ask) as stream:
        events = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == said
    assert events[-1].response.output_text == said
    assert response.usage.input_tokens_details.cached_tokens == usage.prompt_tokens - 1
    shaped = client.responses.create(**ask, text={"format": {"type": "json_schema", "name": "pet", "schema": SHAPE}})
    assert json.loads(shaped.output_text) in SHAPE["enum"], shaped.output_text
    counted = client.responses.input_tokens.count(model=model, input=MESSAGES[0]["content"])
    assert counted.input_tokens == usage.prompt_tokens

    error = refused(openai.BadRequestError, client.responses.create, **ask, previous_response_id="resp_1")
    assert error.body["param"] == "previous_response_id"
    wrong = openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong", max_retries=0)
    refused(openai.AuthenticationError, wrong.completions.create, **text)
    return said, continued, usage


def anthropic_endpoints(server, said, usage):
    client = anthropic.Anthropic(base_url=server.url, api_key=KEY, max_retries=0)
    ask = {"model": "any", "messages": MESSAGES, "max_tokens": TOKENS}
    message = client.messages.create(**ask)
    assert [block.text for block in message.content] == [said]
    # The conversation is in memory, all but its last token.
    assert (message.usage.input_tokens, message.usage.cache_read_input_tokens) == (1, usage.prompt_tokens - 1)
    assert message.usage.output_tokens == usage.completion_tokens
    assert message.stop_reason in ("end_turn", "max_tokens")
    with client.messages.stream(**ask) as stream:
        assert "".join(stream.text_stream) == said
        last = stream.get_final_message()
        assert (last.stop_reason, last.usage.cache_read_input_tokens) == (message.stop_reason, usage.prompt_tokens - 1)
    events = [event.type for event in client.messages.create(**ask, stream=True)]
    assert events[0] == "message_start" and events[-1] == "message_stop", events
    assert client.messages.count_tokens(model="any", messages=MESSAGES).input_tokens == usage.prompt_tokens
    stopped = client.messages.create(**ask, stop_sequences=["never comes", said[5:8]])
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", said[5:8])
    error = refused(anthropic.BadRequestError, client.messages.create, **ask, tool_choice={"type": "any"})
    assert error.body["error"]["type"] == "invalid_request_error", error.body
    wrong = anthropic.Anthropic(base_url=server.url, api_key="wrong", max_retries=0)
    refused(anthropic.AuthenticationError, wrong.messages.create, **ask)


def ollama_endpoints(server, said, continued, usage):
    client = ollama.Client(server.url, headers={"Authorization": f"Bearer {KEY}"})
    name = client.list().models[0].model
    assert client.ps().models[0].model == name
    assert "completion" in client.show(name).capabilities
    options = {"num_predict": TOKENS}
    answer = client.chat(name, MESSAGES, options=options)
    assert answer.message.content == said and answer.done
    assert (answer.prompt_eval_count, answer.eval_count) == (usage.prompt_tokens, usage.completion_tokens)
    parts = list(client.chat(name, MESSAGES, options=options, stream=True))
    assert "".join(part.message.content for part in parts) == said and parts[-1].total_duration > 0
    prompt = MESSAGES[0]["content"]
    assert client.generate(name, prompt, options=options).response == said
    parts = client.generate(name, "Once upon a time", raw=True, options=options, stream=True)
    assert "".join(part.response for part in parts) == continued
    shaped = [client.chat(name, MESSAGES, format=SHAPE).message.content]
    shaped.append(client.generate(name, prompt, format=SHAPE).response)
    assert all(json.loads(text) in SHAPE["enum"] for text in shaped), shaped
    error = refused(ollama.ResponseError, client.chat, name, MESSAGES, format={"not": {}})
    assert error.status_code == 400 and error.error.startswith("format"), error


def node(server, expected):
    """OpenAI's client for Node, which has to hear the same."""
    command = ["node", sys.argv[2], server.url, KEY]
    subprocess.run(command, input=json.dumps(expected), text=True, check=True)


def vectors(server):
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0)
    texts = ["cats sleep all day", "paris"]
    # Without a format the client asks for base64 and reads it.
    made = [one.embedding for one in client.embeddings.create(model="any", input=texts).data]
    floats = client.embeddings.create(model="any", input=texts, encoding_format="float")
    assert [one.embedding for one in floats.data] == made and len(made[0]) == 24
    assert floats.usage.prompt_tokens == 9, floats.usage
    coded = server.post("/v1/embeddings", {"input": "paris", "encoding_format": "base64"})["data"][0]["embedding"]
    assert list(struct.unpack("<24f", base64.b64decode(coded))) == made[1]
    theirs = ollama.Client(server.url, headers={"Authorization": f"Bearer {KEY}"})
    single = lambda vector: list(struct.unpack("<24f", struct.pack("<24f", *vector)))
    assert [single(vector) for vector in theirs.embed("any", texts).embeddings] == [single(one) for one in made]
    assert single(theirs.embeddings("any", "paris").embedding) == single(made[1])
    node(server, {"texts": texts, "vectors": made})
    error = refused(openai.BadRequestError, client.embeddings.create, model="any", input="a", dimensions=3)
    assert error.body["param"] == "dimensions"
    refused(openai.APIStatusError, client.completions.create, model="any", prompt="a")


def scores(server):
    documents = ["cats sleep all day", "Paris is the capital of France.", "Berlin, a city in Germany"]
    query = "what is the capital of france"
    jina = server.post("/v1/rerank", {"query": query, "documents": documents, "top_n": 2, "return_documents": True})
    best = [result["relevance_score"] for result in jina["results"]]
    assert len(best) == 2 and best == sorted(best, reverse=True)
    assert all(result["document"]["text"] == documents[result["index"]] for result in jina["results"])
    tei = server.post("/rerank", {"query": query, "texts": documents})
    assert [one["score"] for one in tei[:2]] == best and len(tei) == 3


def several(candor):
    """Two models, of which one is loaded at a time."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("first", "second"):
            shutil.copy(ENCODER, Path(folder) / f"{name}.gguf")
        with Server(candor, "--models-dir", folder, "--models-max", "1", "--pooling", "mean") as server:
            client = openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0)
            theirs = ollama.Client(server.url, headers={"Authorization": f"Bearer {KEY}"})
            loaded = lambda: [model.model for model in theirs.ps().models]
            assert [model.id for model in client.models.list()] == ["first", "second"]
            assert [model.model for model in theirs.list().models] == ["first", "second"] and loaded() == []
            made = [client.embeddings.create(model=name, input="cats").data[0].embedding for name in ("first", "second")]
            assert made[0] == made[1] and loaded() == ["second"]
            theirs.embed("first:latest", "cats", keep_alive="5m")
            assert loaded() == ["first"]
            theirs.embed("first", "cats", keep_alive=0)
            while loaded():
                pass
            error = refused(openai.NotFoundError, client.embeddings.create, model="third", input="cats")
            assert error.code == "model_not_found", error.body
            assert refused(ollama.ResponseError, theirs.embed, "third", "cats").status_code == 404


def encrypted(candor):
    """Over TLS, by OpenSSL: both versions, both kinds of keys, and a client that streams."""
    for kind in (trustme.KeyType.RSA, trustme.KeyType.ECDSA):
        with tempfile.TemporaryDirectory() as folder:
            authority = trustme.CA(key_type=kind)
            identity = authority.issue_cert("localhost", "127.0.0.1", key_type=kind)
            cert, key = Path(folder) / "cert.pem", Path(folder) / "key.pem"
            identity.private_key_pem.write_to_path(key)
            for blob in identity.cert_chain_pems:
                blob.write_to_path(cert, append=True)
            flags = ["-np", "1", "-c", "512", "--ssl-cert-file", str(cert), "--ssl-key-file", str(key)]
            with Server(candor, *flags) as server:
                assert server.url.startswith("https://")
                for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                    trust = ssl.create_default_context()
                    authority.configure_trust(trust)
                    trust.minimum_version = trust.maximum_version = version
                    http = httpx.Client(verify=trust)
                    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0, http_client=http)
                    text = {"model": "any", "prompt": "Once upon a time", "max_tokens": TOKENS, "temperature": 0}
                    whole = client.completions.create(**text).choices[0].text
                    parts = client.completions.create(**text, stream=True)
                    assert whole and "".join(part.choices[0].text for part in parts) == whole
                strange = openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0)
                refused(openai.APIConnectionError, strange.models.list)


class Collector(BaseHTTPRequestHandler):
    """Takes spans, as OpenTelemetry's collector does."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = (self.path, self.headers["Content-Type"], self.headers["X-Team"])
        assert asked == ("/v1/traces", "application/x-protobuf", "cats"), asked
        self.server.batches.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def spans(candor):
    """Spans of requests in the trace of the client that sent them, by OpenTelemetry's own packages."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
        collector.batches = []
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{collector.server_port}/v1/traces"
        os.environ |= {"OTEL_EXPORTER_OTLP_HEADERS": "x-team=cats", "OTEL_SERVICE_NAME": "stories"}
        with Server(candor, "-np", "1", "-c", "512", "--otlp-traces-endpoint", endpoint) as server:
            client = openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0)
            tracer = TracerProvider().get_tracer("client")
            with tracer.start_as_current_span("asks") as asks:
                headers = {}
                TraceContextTextMapPropagator().inject(headers)
                chat = {"model": "any", "messages": MESSAGES, "max_tokens": TOKENS, "stream": True}
                chat |= {"stream_options": {"include_usage": True}, "extra_headers": headers}
                usage = list(client.chat.completions.create(**chat))[-1].usage
            refused(openai.NotFoundError, client.get, "/never", cast_to=object)
            # Who leaves before the end.
            text = {"model": "any", "prompt": "Once", "max_tokens": 400, "stream": True, "extra_body": {"ignore_eos": True}}
            with client.completions.create(**text) as stream:
                next(iter(stream))
        # What is left is sent at the server's end.
        collector.shutdown()
        groups = [group for batch in collector.batches for group in batch.resource_spans]
        found = [span for group in groups for scope in group.scope_spans for span in scope.spans]
        assert {value_of(group.resource.attributes)["service.name"] for group in groups} == {"stories"}
        named = {span.name: span for span in found if span.kind == Span.SPAN_KIND_SERVER}
        whole = named["POST /v1/chat/completions"]
        context = asks.get_span_context()
        assert int.from_bytes(whole.trace_id) == context.trace_id and int.from_bytes(whole.parent_span_id) == context.span_id
        has = value_of(whole.attributes)
        assert (has["http.route"], has["http.response.status_code"]) == ("/v1/chat/completions", 200)
        assert (has["gen_ai.operation.name"], has["gen_ai.usage.input_tokens"]) == ("chat", usage.prompt_tokens)
        assert has["gen_ai.usage.output_tokens"] == usage.completion_tokens and "error.type" not in has
        below = sorted((span for span in found if span.parent_span_id == whole.span_id), key=lambda span: span.start_time_unix_nano)
        assert [span.name for span in below] == ["wait", "prompt", "answer"]
        ends = [whole.start_time_unix_nano, *(span.end_time_unix_nano for span in below)]
        assert ends == [*(span.start_time_unix_nano for span in below), whole.end_time_unix_nano] and ends == sorted(ends)
        assert asks.start_time <= ends[0] and ends[-1] <= asks.end_time + 10**9
        assert value_of(named["GET"].attributes)["http.response.status_code"] == 404 and not named["GET"].parent_span_id
        left = named["POST /v1/completions"]
        assert left.status.code == Status.STATUS_CODE_ERROR and value_of(left.attributes)["error.type"] == "cancelled"
        assert MESSAGES[0]["content"] not in str(collector.batches)


def value_of(attributes):
    """Names and values of attributes."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


def main():
    candor = sys.argv[1]
    encrypted(candor)
    with Server(candor, "--temp", "0", "-np", "2", "-c", "4096") as server:
        said, continued, usage = openai_endpoints(server)
        anthropic_endpoints(server, said, usage)
        ollama_endpoints(server, said, continued, usage)
        node(server, {"said": said, "messages": MESSAGES, "tokens": TOKENS, "shape": SHAPE})
    with Server(candor, str(ENCODER), "--pooling", "mean") as server:
        vectors(server)
    with Server(candor, str(ENCODER)) as server:
        scores(server)
    several(candor)
    spans(candor)
    print("7 passed, 0 failed")


main()

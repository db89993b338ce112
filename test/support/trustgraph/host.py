"""Runs real processors of TrustGraph in one process, for tests. Orders are lines of JSON on standard input. Answers, and what its
stores receive, are lines of JSON on standard output. Stubs stand for what is not on PyPI or needs a server: Cassandra's table of the
configuration, NLTK's data, an embeddings model and an agent."""
import asyncio
import importlib
import json
import logging
import os
import re
import sys
import types

from trustgraph import schema
from trustgraph.base import (
    AgentService, ConsumerSpec, EmbeddingsService, FlowProcessor, GraphEmbeddingsStoreService, PromptClientSpec,
    TextCompletionClientSpec, TriplesStoreService, get_async_pubsub,
)
from trustgraph.base.serialization import dataclass_to_dict, dict_to_dataclass

workspaces = "__workspaces__"
settings = json.loads(os.environ["TG_BROKER"])


def tell(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def module(name, **members):
    made = types.ModuleType(name)
    vars(made).update(members)
    sys.modules[name] = made
    return made


class Table:
    """The configuration's table, in memory."""

    def __init__(self, *_):
        self.version, self.rows = 0, {}

    async def inc_version(self):
        self.version += 1

    async def get_version(self):
        return self.version

    async def put_config(self, workspace, cls, key, value):
        self.rows[workspace, cls, key] = value

    async def delete_key(self, workspace, cls, key):
        self.rows.pop((workspace, cls, key), None)

    async def get_value(self, workspace, cls, key):
        return self.rows.get((workspace, cls, key))

    async def get_values(self, workspace, cls):
        return [(k, v) for (w, c, k), v in self.rows.items() if (w, c) == (workspace, cls)]

    async def get_keys(self, workspace, cls):
        return [key for key, _ in await self.get_values(workspace, cls)]

    async def get_values_all_ws(self, cls):
        return [(w, k, v) for (w, c, k), v in self.rows.items() if c == cls]

    async def get_keys_all_ws(self, cls):
        return [(w, k) for (w, c, k) in self.rows if c == cls]

    async def get_all_for_workspace(self, workspace):
        return [(c, k, v) for (w, c, k), v in self.rows.items() if w == workspace]


module("trustgraph.tables.config", ConfigTableStore=Table)


class Sentences:
    def tokenize(self, text):
        return [part for part in re.split(r"(?<=[.!?])\s+", text) if part]


corpus = module("nltk.corpus", stopwords=types.SimpleNamespace(words=lambda _: []))
module(
    "nltk",
    corpus=corpus,
    data=types.SimpleNamespace(find=lambda _: True, load=lambda _: Sentences()),
    word_tokenize=str.split,
    pos_tag=lambda words: [(word, "NN") for word in words],
)


class Triples(TriplesStoreService):
    async def store_triples(self, workspace, message):
        tell({"event": "triples", "workspace": workspace, "message": dataclass_to_dict(message)})


class Vectors(GraphEmbeddingsStoreService):
    async def store_graph_embeddings(self, workspace, message):
        tell({"event": "graph-embeddings", "workspace": workspace, "message": dataclass_to_dict(message)})


class Reader(FlowProcessor):
    """Tells what comes to its port `input`, as an event."""

    def __init__(self, **params):
        super().__init__(**params)
        self.register_specification(
            ConsumerSpec(name="input", schema=self.record, handler=self.on_message))

    async def on_message(self, message, consumer, flow):
        tell({"event": self.event, "workspace": flow.workspace, "message": dataclass_to_dict(message.value())})


class Rows(Reader):
    record, event = schema.ExtractedObject, "rows"


class Contexts(Reader):
    record, event = schema.EntityContexts, "entity-contexts"


class Embeddings(EmbeddingsService):
    """A vector of the counts of eight letters, which is the same for the same text."""

    async def on_embeddings(self, texts, model=None):
        return [[1.0 + text.lower().count(letter) for letter in "aeiounst"] for text in texts]


class Agent(AgentService):
    """Answers with what the prompt service says to the question."""

    def __init__(self, **params):
        super().__init__(**params)
        self.register_specification(PromptClientSpec(request_name="prompt-request", response_name="prompt-response"))

    async def agent_request(self, request, respond, next, flow):
        answer = await flow("prompt-request").question(request.question)
        await respond(schema.AgentResponse(
            message_type="answer", content=answer.text, end_of_message=True, end_of_dialog=True))


class Client(FlowProcessor):
    """Asks prompts and completions for the tests."""

    def __init__(self, **params):
        super().__init__(**params)
        self.register_specification(PromptClientSpec(request_name="prompt-request", response_name="prompt-response"))
        self.register_specification(TextCompletionClientSpec(
            request_name="text-completion-request", response_name="text-completion-response"))


own = {kind.__name__: kind for kind in (Triples, Vectors, Rows, Contexts, Embeddings, Agent, Client)}


class Host:
    def __init__(self):
        self.backend = get_async_pubsub(**settings)
        self.running = {}
        self.producers = {}
        self.group = None

    async def serve(self, order):
        try:
            result = await getattr(self, order["do"])(**order.get("with", {}))
            tell({"order": order["order"], "result": result})
        except BaseException as error:
            tell({"order": order["order"], "error": f"{type(error).__name__}: {error}"})
            if isinstance(error, asyncio.CancelledError):
                raise

    async def topics(self, identifiers):
        for identifier in identifiers:
            await self.backend.create_topic(identifier)

    async def start(self, kind, id, params={}):
        """The real class at a dotted path, or one of the above by its name."""
        path, _, name = kind.rpartition(".")
        cls = getattr(importlib.import_module(path), name) if path else own[kind]
        processor = cls(**settings, **params, id=id, taskgroup=self.group)
        await processor.start()
        self.running[id] = processor
        await self.settled(processor)

    async def settled(self, processor):
        """First positions of Kafka's groups are the ends of topics: they must be known before a message is sent."""
        for registration in processor.receiver_pool.registrations:
            consumer = getattr(registration.backend_consumer, "_consumer", None)
            if hasattr(consumer, "assignment"):
                for partition in consumer.assignment():
                    await consumer.position(partition)

    async def idle(self):
        """A worker of TrustGraph ends for good when a flow stops while it handles a message: this waits for what is settled."""
        for processor in self.running.values():
            for registration in processor.receiver_pool.registrations:
                consumer = getattr(registration.backend_consumer, "_consumer", None)
                for partition in consumer.assignment() if hasattr(consumer, "assignment") else ():
                    while 0 < (consumer.highwater(partition) or 0) != await consumer.committed(partition):
                        await asyncio.sleep(0.02)

    async def stop(self, id):
        await self.idle()
        processor = self.running.pop(id)
        for flow in list(getattr(processor, "flows", {})):
            await processor.stop_flow(*flow)
        await processor.stop()

    async def workspace(self, name):
        """Its topics stand before it does: TrustGraph leaves them to Kafka's auto-creation. A request while the service joins its
        group for the new topic can be lost, so this waits for that."""
        await self.topics([f"request:tg:config:{name}", f"response:tg:config:{name}"])
        await self.config(workspaces, [["workspace", name, "{}"]])
        while name not in self.running["config-svc"].workspace_consumers:
            await asyncio.sleep(0.02)
        await self.settled(self.running["config-svc"])

    async def config(self, workspace, values):
        store = self.running["config-svc"].config
        entries = [schema.ConfigValue(type=t, key=k, value=v) for t, k, v in values]
        await store.handle_put(schema.ConfigRequest(workspace=workspace, values=entries), workspace)

    async def unset(self, workspace, keys):
        store = self.running["config-svc"].config
        entries = [schema.ConfigKey(type=t, key=k) for t, k in keys]
        await store.handle_delete(schema.ConfigRequest(workspace=workspace, keys=entries), workspace)

    async def flow(self, operation, workspace, flow, blueprint="test"):
        """Starts or stops a flow as TrustGraph's flow service does, topics included."""
        from trustgraph.flow.service.flow import FlowConfig
        if operation == "stop-flow":
            await self.idle()
        request = schema.FlowRequest(operation=operation, flow_id=flow, blueprint_name=blueprint)
        answer = await FlowConfig(Store(self.running["config-svc"].config), self.backend).handle(request, workspace)
        if answer.error:
            raise RuntimeError(answer.error.message)

    async def until_flow(self, id, workspace, flow, present=True):
        processor = self.running[id]
        ports = {spec.name if isinstance(spec, ConsumerSpec) else getattr(spec, "request_name", None)
                 for spec in processor.specifications} - {None}

        def consumers():
            return set(processor.flows[workspace, flow].consumer) if (workspace, flow) in processor.flows else None

        while consumers() != (ports if present else None):
            await asyncio.sleep(0.02)
        if present:
            await self.settled(processor)

    async def positions(self, groups):
        """Kafka's groups only. Gives groups the ends of their topics as positions: what the groups of a flow have that TrustGraph has served."""
        from aiokafka import AIOKafkaConsumer, TopicPartition
        for group, identifier in groups:
            topic = self.backend._parse_topic(identifier)[0]
            consumer = AIOKafkaConsumer(bootstrap_servers=settings["kafka_bootstrap_servers"], group_id=group,
                                        enable_auto_commit=False)
            await consumer.start()
            consumer.assign([TopicPartition(topic, 0)])
            await consumer.seek_to_end()
            await consumer.commit({TopicPartition(topic, 0): await consumer.position(TopicPartition(topic, 0))})
            await consumer.stop()

    async def send(self, topic, type, value, properties={}):
        cls = getattr(schema, type)
        if topic not in self.producers:
            self.producers[topic] = await self.backend.create_producer(topic, cls)
        await self.producers[topic].send(dict_to_dataclass(value, cls), properties)

    async def prompt(self, workspace, flow, prompt, terms, streaming=False, timeout=60):
        """What the caller of PromptClient gets, with the parts that it was handed while the reply streamed."""
        parts = []
        client = self.running["client"].flows[workspace, flow]("prompt-request")
        result = await client.prompt(prompt, terms, timeout=timeout, streaming=streaming,
                                     chunk_callback=lambda text, last: parts.append([text, last]))
        return {**vars(result), "parts": parts}

    async def complete(self, workspace, flow, system, prompt, timeout=60):
        client = self.running["client"].flows[workspace, flow]("text-completion-request")
        return vars(await client.text_completion(system=system, prompt=prompt, timeout=timeout))


class Store:
    """The client of the configuration that the flow service has."""

    def __init__(self, config):
        self.config, self.table = config, config.table_store

    async def get(self, workspace, type, key):
        return await self.table.get_value(workspace, type, key)

    async def keys(self, workspace, type):
        return await self.table.get_keys(workspace, type)

    async def workspaces_for_type(self, type):
        return {workspace for workspace, _ in await self.table.get_keys_all_ws(type)}

    async def put(self, workspace, type, key, value):
        await self.put_many(workspace, [(type, key, value)])

    async def put_many(self, workspace, values):
        entries = [schema.ConfigValue(type=t, key=k, value=v) for t, k, v in values]
        await self.config.handle_put(schema.ConfigRequest(workspace=workspace, values=entries), workspace)

    async def delete(self, workspace, type, key):
        await self.delete_many(workspace, [(type, key)])

    async def delete_many(self, workspace, keys):
        entries = [schema.ConfigKey(type=t, key=k) for t, k in keys]
        await self.config.handle_delete(schema.ConfigRequest(workspace=workspace, keys=entries), workspace)


async def main():
    logging.basicConfig(stream=sys.stderr, level=os.environ.get("TG_LOG", "ERROR"), format="%(asctime)s %(name)s %(levelname)s %(message)s")
    host = Host()
    lines = asyncio.StreamReader(limit=64 * 1024 * 1024)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    tell({"event": "ready"})
    async with asyncio.TaskGroup() as group:
        host.group = group
        while line := await lines.readline():
            group.create_task(host.serve(json.loads(line)))
        os._exit(0)  # Standard input is closed: the test has ended.


asyncio.run(main())

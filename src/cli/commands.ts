// The commands, each in a file that is loaded only when its name stands on the command line: `--version` and `--help` load none, and a
// processor in a cluster none of the others.
import type { Command } from 'commander'

/** A command as the help lists it. */
interface CommandEntry {
  readonly description: string
  /** Resolves to the function that adds its arguments, options and action. */
  readonly load: () => Promise<(command: Command) => void>
}

export const commands: Readonly<Record<string, CommandEntry>> = {
  extract: {
    description:
      'extract a knowledge graph from text, Markdown, HTML and PDF files; triples go to standard output',
    load: async () => (await import('./commands/extract.ts')).addExtract,
  },
  eval: {
    description: 'extract from documents with known facts, and report precision, recall, F1 and cost',
    load: async () => (await import('./commands/eval.ts')).addEval,
  },
  run: {
    description: 'run processors on a broker, until stopped',
    load: async () => (await import('./commands/run.ts')).addRun,
  },
  load: {
    description: 'publish documents for the processors of a flow',
    load: async () => (await import('./commands/load.ts')).addLoad,
  },
  remove: {
    description: 'remove documents: what they state is withdrawn',
    load: async () => (await import('./commands/remove.ts')).addRemove,
  },
  erase: {
    description:
      'remove documents, and delete their texts from topics, dead letters and the cache of replies',
    load: async () => (await import('./commands/erase.ts')).addErase,
  },
  prompt: {
    description: 'publish a prompt request and print the reply',
    load: async () => (await import('./commands/prompt.ts')).addPrompt,
  },
  tail: {
    description: 'print the messages of a topic, one JSON object per line, and follow new ones until stopped',
    load: async () => (await import('./commands/tail.ts')).addTail,
  },
  topics: {
    description: 'create and list the topics of flows, and print the lag of their groups',
    load: async () => (await import('./commands/topics.ts')).addTopics,
  },
  dead: {
    description: 'list, show and replay the messages that could not be processed',
    load: async () => (await import('./commands/dead.ts')).addDead,
  },
  status: {
    description: 'print the status of the documents of a flow, as the ledger keeps it',
    load: async () => (await import('./commands/status.ts')).addStatus,
  },
  rejected: {
    description: 'count the rejected items by prompt, model and reason',
    load: async () => (await import('./commands/rejected.ts')).addRejected,
  },
  parse: {
    description:
      "read a model's reply from standard input and print its items, and what was rejected or repaired",
    load: async () => (await import('./commands/parse.ts')).addParse,
  },
  check: {
    description:
      "validate the configuration, the flows file, the ontologies, the row schemas, the prompts and their schemas, and run the prompts' worked examples",
    load: async () => (await import('./commands/check.ts')).addCheck,
  },
  doctor: {
    description:
      'check the key, the model, the broker and every other configured server, and say what to fix',
    load: async () => (await import('./commands/doctor.ts')).addDoctor,
  },
  config: {
    description: 'print the value of every option and where it came from',
    load: async () => (await import('./commands/config.ts')).addConfig,
  },
  trustgraph: {
    description: "print which topics, groups and processors of TrustGraph's those of a flow stand for",
    load: async () => (await import('./commands/trustgraph.ts')).addTrustGraph,
  },
  prompts: {
    description: 'manage your own prompts',
    load: async () => (await import('./commands/prompts.ts')).addPrompts,
  },
  cache: {
    description: 'print the size of the reply cache, or empty it',
    load: async () => (await import('./commands/cache.ts')).addCache,
  },
}

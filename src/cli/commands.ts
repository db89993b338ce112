// The commands, each in a file that is loaded only when its name stands on the command line: `--version` and `--help` load none, and a
// processor in a cluster none of the others.
import type { Command } from 'commander'

/** A command as the help lists it. */
interface CommandEntry {
  readonly description: string
  /** The heading in the help under which it stands. */
  readonly group: string
  /** What comes after `graphmill`, each with what it does. */
  readonly examples: readonly (readonly [parameters: string, meaning: string])[]
  /** Resolves to the function that adds its arguments, options and action. */
  readonly load: () => Promise<(command: Command) => void>
}

/** The examples at the end of a command's help. */
export function examplesText(name: string, examples: CommandEntry['examples']): string {
  const lines = examples.map(([parameters, meaning]) =>
    `  # ${meaning}\n  graphmill ${name} ${parameters}`.trimEnd(),
  )
  return `\nExamples:\n${lines.join('\n')}`
}

export const commands: Readonly<Record<string, CommandEntry>> = {
  extract: {
    description:
      'extract a knowledge graph from text, Markdown, HTML and PDF files; triples go to standard output',
    group: 'Documents',
    examples: [
      ['notes.md --out graph.html', 'one file, as a page with a drawing'],
      ['docs/ --model llama3.2 --out graph.nq --json', 'a folder, with a model, and the summary as JSON'],
    ],
    load: async () => (await import('./commands/extract.ts')).addExtract,
  },
  eval: {
    description: 'extract from documents with known facts, and report precision, recall, F1 and cost',
    group: 'Documents',
    examples: [
      ['examples/eval/mills.jsonl', 'score the offline rules against known facts'],
      ['gold/ --model llama3.2 --min-f1 0.6', 'fail when F1 is below 0.6, for CI'],
    ],
    load: async () => (await import('./commands/eval.ts')).addEval,
  },
  run: {
    description: 'run processors on a broker, until stopped',
    group: 'Flows on a broker',
    examples: [
      ['--all --broker kafka://127.0.0.1:9092 --model llama3.2', 'every processor in one process'],
      ['prompt --broker kafka://127.0.0.1:9092 --concurrency 8', 'one more replica of a single processor'],
    ],
    load: async () => (await import('./commands/run.ts')).addRun,
  },
  load: {
    description: 'publish documents for the processors of a flow',
    group: 'Flows on a broker',
    examples: [
      ['notes.md --broker kafka://127.0.0.1:9092', 'publish one document'],
      ['docs/ --base docs --collection manuals', 'publish a folder into a collection'],
    ],
    load: async () => (await import('./commands/load.ts')).addLoad,
  },
  remove: {
    description: 'remove documents: what they state is withdrawn',
    group: 'Flows on a broker',
    examples: [
      ['docs/old.md --base docs', 'withdraw what one file states'],
      ['--collection manuals --dry-run', 'show what would be removed'],
    ],
    load: async () => (await import('./commands/remove.ts')).addRemove,
  },
  erase: {
    description:
      'remove documents, and delete their texts from topics, dead letters and the cache of replies',
    group: 'Flows on a broker',
    examples: [
      ['notes.md', 'one document, by its file or title'],
      ['old.md older.md', 'two documents'],
    ],
    load: async () => (await import('./commands/erase.ts')).addErase,
  },
  prompt: {
    description: 'publish a prompt request and print the reply',
    group: 'Flows on a broker',
    examples: [
      ['extract-topics --term text=@notes.md', 'ask once, and print the reply'],
      ['extract-topics --term text=@notes.md --stream', 'print each part of the reply as it comes'],
    ],
    load: async () => (await import('./commands/prompt.ts')).addPrompt,
  },
  tail: {
    description: 'print the messages of a topic, one JSON object per line, and follow new ones until stopped',
    group: 'Looking at a flow',
    examples: [
      ['definitions', 'print new definitions until stopped'],
      ['triples --from earliest --until-end', 'print all that there is, and end'],
    ],
    load: async () => (await import('./commands/tail.ts')).addTail,
  },
  topics: {
    description: 'create and list the topics of flows, and print the lag of their groups',
    group: 'Looking at a flow',
    examples: [
      ['lag', 'how many messages wait for each group'],
      ['create --extractors definitions,rows --schemas tables/', 'create the topics of a flow'],
    ],
    load: async () => (await import('./commands/topics.ts')).addTopics,
  },
  dead: {
    description: 'list, show and replay the messages that could not be processed',
    group: 'Looking at a flow',
    examples: [
      ['list', 'the messages that could not be processed'],
      ['replay', 'publish them again'],
    ],
    load: async () => (await import('./commands/dead.ts')).addDead,
  },
  status: {
    description: 'print the status of the documents of a flow, as the ledger keeps it',
    group: 'Looking at a flow',
    examples: [
      ['', 'all documents of the flow'],
      ['notes.md --watch', 'follow one document to its end'],
    ],
    load: async () => (await import('./commands/status.ts')).addStatus,
  },
  rejected: {
    description: 'count the rejected items by prompt, model and reason',
    group: 'Looking at a flow',
    examples: [
      ['', 'count the rejected items'],
      ['--json', 'the same for a program'],
    ],
    load: async () => (await import('./commands/rejected.ts')).addRejected,
  },
  parse: {
    description:
      "read a model's reply from standard input and print its items, and what was rejected or repaired",
    group: 'Prompts and models',
    examples: [
      ['--schema item.json < reply.txt', 'what is read of a reply'],
      ['--response-type json --strict < reply.txt', 'without any repair'],
    ],
    load: async () => (await import('./commands/parse.ts')).addParse,
  },
  check: {
    description:
      "validate the configuration, the flows file, the ontologies, the row schemas, the prompts and their schemas, and run the prompts' worked examples",
    group: 'Setting up',
    examples: [
      ['--prompts prompts/ --schemas tables/', 'validate your own prompts and row schemas'],
      ['--flows flows.yaml', 'validate a file of flows'],
    ],
    load: async () => (await import('./commands/check.ts')).addCheck,
  },
  doctor: {
    description:
      'check the key, the model, the broker and every other configured server, and say what to fix',
    group: 'Setting up',
    examples: [
      ['--model llama3.2', 'is the model there?'],
      ['--broker kafka://127.0.0.1:9092 --json', 'is the broker there? For a program'],
    ],
    load: async () => (await import('./commands/doctor.ts')).addDoctor,
  },
  config: {
    description: 'print the value of every option and where it came from',
    group: 'Setting up',
    examples: [
      ['', 'every option, its value and where it came from'],
      ['--flow manuals --json', 'the same for one flow, for a program'],
    ],
    load: async () => (await import('./commands/config.ts')).addConfig,
  },
  trustgraph: {
    description: "print which topics, groups and processors of TrustGraph's those of a flow stand for",
    group: 'Setting up',
    examples: [
      ['describe --flows flows.yaml', 'what stands for what'],
      ['describe --flows flows.yaml --json', 'the same for a program'],
    ],
    load: async () => (await import('./commands/trustgraph.ts')).addTrustGraph,
  },
  prompts: {
    description: 'manage your own prompts',
    group: 'Prompts and models',
    examples: [
      ['import trustgraph.json', 'convert prompts of TrustGraph into files'],
      ['import trustgraph.json --out my-prompts --force', 'into another folder, over older files'],
    ],
    load: async () => (await import('./commands/prompts.ts')).addPrompts,
  },
  cache: {
    description: 'print the size of the reply cache, or empty it',
    group: 'Prompts and models',
    examples: [
      ['stats', 'how much the remembered replies take'],
      ['clear', 'forget them'],
    ],
    load: async () => (await import('./commands/cache.ts')).addCache,
  },
  completion: {
    description: 'print a script that completes commands, options and their values in a shell',
    group: 'Setting up',
    examples: [
      ['bash > ~/.local/share/bash-completion/completions/graphmill', 'for every new bash'],
      ['zsh > ~/.zfunc/_graphmill', 'for zsh, with ~/.zfunc in fpath'],
    ],
    load: async () => {
      const { addCompletion } = await import('./commands/completion.ts')
      return (command) => addCompletion(command, commands)
    },
  },
}

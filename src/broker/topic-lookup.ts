// Whether topics exist that others create and delete. Each answer is remembered for a short while. A topic counts as missing
// only when several looks in a row do not find it, since a topic that was just created is not known everywhere.
import { setTimeout as delay } from 'node:timers/promises'
import { type GraphmillError, toGraphmillError } from '../errors.ts'

/** How long an answer counts, in milliseconds. */
const rememberMs = 5000
/** At most so many answers are remembered. */
const mostAnswers = 10_000
/** The pauses before the further looks at a topic that seems to be missing, in milliseconds. */
const pausesMs = [150, 350]

export interface TopicLookup {
  /** Whether the topic exists, or did within the last five seconds. Rejects like `look`. */
  exists(topic: string): Promise<boolean>
  /** Whether the topic exists now. Rejects when no answer came, and with `topic_refused` when we may not know. */
  look(topic: string): Promise<boolean>
  /** Whether the topic exists now, or `look` rejects. */
  mayExist(topic: string): Promise<boolean>
  /** Whether the error says that the topic is missing, and another look cannot confirm it. */
  contradicts(error: GraphmillError, topic: string): Promise<boolean>
  /** These were created or deleted. */
  forget(topics: Iterable<string>): void
}

export interface TopicLookupOptions {
  /** A monotonic clock, in milliseconds. Default `performance.now`. */
  readonly now?: () => number
  readonly pause?: (ms: number) => Promise<unknown>
}

interface LookupAnswer {
  readonly exists: Promise<boolean>
  /** When it is asked for again. */
  readonly until: number
}

/** `ask` looks once. */
export function createTopicLookup(
  ask: (topic: string) => Promise<boolean>,
  { now = () => performance.now(), pause = delay }: TopicLookupOptions = {},
): TopicLookup {
  /** By topic, the oldest first. */
  const answers = new Map<string, LookupAnswer>()

  async function confirm(topic: string): Promise<boolean> {
    for (const ms of pausesMs) {
      if (await ask(topic)) return true
      await pause(ms)
    }
    return ask(topic)
  }

  function look(topic: string): Promise<boolean> {
    const exists = confirm(topic)
    const answer = { exists, until: now() + rememberMs }
    answers.delete(topic)
    answers.set(topic, answer)
    exists.catch((thrown) => {
      if (toGraphmillError(thrown).code !== 'topic_refused' && answers.get(topic) === answer)
        answers.delete(topic)
    })
    if (answers.size > mostAnswers) answers.delete(answers.keys().next().value!)
    return exists
  }

  const mayExist = (topic: string) => look(topic).catch(() => true)

  return {
    look,
    mayExist,
    contradicts: async ({ code }, topic) => code === 'topic_missing' && mayExist(topic),
    exists(topic) {
      const known = answers.get(topic)
      return known && known.until > now() ? known.exists : look(topic)
    },
    forget(topics) {
      for (const topic of topics) answers.delete(topic)
    },
  }
}

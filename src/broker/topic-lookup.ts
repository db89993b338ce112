// Whether topics exist, for those that others make and delete: each answer is remembered for a short while, and that a topic
// is missing is believed only when several looks in a row say so, since a topic that was just made is not known everywhere.
import { setTimeout as delay } from 'node:timers/promises'
import { toGraphmillError } from '../errors.ts'

/** An answer counts for this long, in milliseconds. */
const rememberMs = 5000
/** So many answers are remembered, at most. */
const mostAnswers = 10_000
/** The pauses before the further looks at a topic that seems to be missing, in milliseconds. */
const pausesMs = [150, 350]

export interface TopicLookup {
  /** Whether the topic exists, or did within the last five seconds. Rejects when nobody can say, or may not say it to us: `topic_refused`. */
  exists(topic: string): Promise<boolean>
  /** Whether the topic exists now. */
  look(topic: string): Promise<boolean>
  /** These were made or deleted. */
  forget(topics: Iterable<string>): void
}

export interface TopicLookupOptions {
  /** By a clock that nobody sets, in milliseconds. Default `performance.now`. */
  readonly now?: () => number
  readonly pause?: (ms: number) => Promise<unknown>
}

interface Answer {
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
  const answers = new Map<string, Answer>()

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

  return {
    look,
    exists(topic) {
      const known = answers.get(topic)
      return known && known.until > now() ? known.exists : look(topic)
    },
    forget(topics) {
      for (const topic of topics) answers.delete(topic)
    },
  }
}

// A desk that outlives its thread: one that dies (out of memory, a fault) is opened anew at the next question, from the files as
// they were read, so that the version stays the version. A question whose thread died under it is asked once more.
import { GraphmillError } from '../errors.ts'
import type { Desk } from './ontology-service.ts'
import { type DeskThread, type OntologyOptions, openThread } from './worker-client.ts'

export interface LastingDesk extends Desk {
  /** Ends it; what is still asked is answered with `aborted`. */
  close(): Promise<void>
}

/**
 * Resolves when the ontologies are read and indexed. Throws what reading them throws. A question throws `unexpected` where a second
 * thread dies under it: the next one opens a third.
 */
export async function openDesk(options: OntologyOptions, open = openThread): Promise<LastingDesk> {
  let thread = await open(options)
  const { summary, files } = thread
  let opening: Promise<DeskThread> | undefined
  let closed = false

  /** The thread, or another in the place of a dead one; all who ask meanwhile wait for the same. */
  async function living(): Promise<DeskThread> {
    if (closed || !thread.ended()) return thread
    opening ??= open({ ...options, files })
      .then((opened) => (thread = opened))
      .finally(() => (opening = undefined))
    return opening
  }

  async function ask<T>(question: (desk: DeskThread) => Promise<T>): Promise<T> {
    for (let isLast = false; ; isLast = true) {
      const desk = await living()
      try {
        return await question(desk)
      } catch (error) {
        if (closed || !desk.ended()) throw error
        if (isLast)
          throw new GraphmillError('unexpected', 'The thread of the ontologies died twice.', { cause: error })
      }
    }
  }

  return {
    summary,
    select: (text, signal) => ask((desk) => desk.select(text, signal)),
    check: (items, signal) => ask((desk) => desk.check(items, signal)),
    triples: (from, signal) => ask((desk) => desk.triples(from, signal)),
    async close() {
      closed = true
      await opening?.catch(() => undefined)
      await thread.close()
    },
  }
}

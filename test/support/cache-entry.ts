// An entry of the cache as a run of one call leaves it.
import type { RunEntry } from '../../src/llm/cache/entry.ts'

export function entryOf(id: string, text = 'a reply'): RunEntry {
  const call = {
    digest: 'd',
    text,
    finishReason: 'stop',
    usage: { promptTokens: 1, completionTokens: 2, totalTokens: 3 },
    model: 'm',
    reasoned: false,
    failure: null,
  } as const
  return { run: { id, startedAt: 1 }, calls: [call], form: 'f', cut: { streaming: true, cuts: [1, 2] } }
}

// Faults that any broker must stand: the model away, and the crash of a process in mid-work.
import { kill } from 'node:process'
import { setTimeout as delay } from 'node:timers/promises'
import { expect } from 'vitest'
import { startLlmServer } from '../support/llm-server.ts'
import type { GraphmillProcess } from '../support/processes.ts'
import { type Execution, type Outcome, openExecution, type Site, units } from './execution.ts'
import { expectAll } from './expect-all.ts'

/** Nothing happens: the broker gives what the memory broker gave, with one call for each unit. */
export async function calm(site: Site, expected: Outcome): Promise<void> {
  await using llm = await startLlmServer()
  const execution = await openExecution(site, { space: 'calm', llmUrl: llm.url })
  try {
    await execution.startRuntime()
    await execution.load()
    await expectAll(execution, expected)
    expect(llm.counts.calls).toBe(units)
  } finally {
    await execution.close()
  }
}

/** The model refuses connections for 15 s when a quarter of the calls is done. */
export async function modelAway(site: Site, expected: Outcome): Promise<void> {
  await using llm = await startLlmServer({ latencyMs: 100 })
  const execution = await openExecution(site, { space: 'model-away', llmUrl: llm.url })
  try {
    await execution.startRuntime()
    await execution.load()
    await llm.until(({ completed }) => completed >= units / 4)
    await llm.away('refuse')
    expect(llm.counts.completed).toBeLessThan(units)
    await delay(15_000)
    await llm.back()
    await expectAll(execution, expected)
  } finally {
    await execution.close()
  }
}

/** Kills the process of one processor by SIGKILL in mid-work, and starts it again. */
export async function crashAndRestart(
  site: Site,
  { victim, expected }: { victim: string; expected: Outcome },
): Promise<void> {
  await using llm = await startLlmServer({ latencyMs: 500 })
  const execution = await openExecution(site, { space: `kill-${victim}`, llmUrl: llm.url })
  try {
    await execution.startRuntime({ without: [victim] })
    const process = await execution.startProcess([victim])
    await execution.load()
    await execution.until(({ units }) => units.done >= 100)
    await someTriples(execution)
    await killAtWork(execution, { victim, process })
    await execution.startProcess([victim])
    await expectAll(execution, expected)
  } finally {
    await execution.close()
  }
}

/** SIGKILL when the process has begun on what has piled up before it; makes sure that it has left some of that unsettled. */
async function killAtWork(
  execution: Execution,
  { victim, process }: { victim: string; process: GraphmillProcess },
): Promise<void> {
  kill(process.pid, 'SIGSTOP')
  let input = await execution.inputOf(victim)
  const backlog = () => input.published - input.settled
  // More than it can do until the signal reaches it; where so much does not come, what came.
  for (let looks = 0; backlog() < 150 && (backlog() < 20 || looks < 200); looks++) {
    await delay(50)
    input = await execution.inputOf(victim)
  }
  kill(process.pid, 'SIGCONT')
  await delay(5)
  await process.end('SIGKILL')
  let [before, after] = [input, await execution.inputOf(victim)]
  while (after.published > before.published) {
    before = after
    after = await execution.inputOf(victim)
  }
  expect(after.settled).toBeLessThan(input.published)
}

/** Resolves when triples are stored: then every processor is at work. */
export async function someTriples(execution: Execution): Promise<void> {
  while ((await execution.graph()).size === 0) await delay(50)
}

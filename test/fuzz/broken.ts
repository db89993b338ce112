// Targets that are broken in every way that the runner must find, chosen by what the generator gives: for the runner's test.
import type { FuzzTarget } from './target.ts'

const kept: Buffer[] = []

export const broken: FuzzTarget = {
  name: 'broken',
  once(rng) {
    const fault = Math.floor(rng() * 40)
    if (fault === 0) throw new Error('a property is violated')
    if (fault === 1) for (;;);
    if (fault === 2) process.abort()
    if (fault === 3) kept.push(Buffer.alloc(80 * 2 ** 20, 1))
    if (fault === 4) for (const end = cpuMs() + 200; cpuMs() < end; );
  },
}

const cpuMs = () => (process.cpuUsage().user + process.cpuUsage().system) / 1000

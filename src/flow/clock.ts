// The clock and the ids of a real process; tests and replays bring their own.
import { v7 } from 'uuid'
import type { Clock, Ids } from './processor.ts'

export const systemClock: Clock = { now: () => Date.now() }

export const uuids: Ids = { next: () => v7() }

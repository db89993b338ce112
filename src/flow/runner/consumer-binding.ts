// One input of one processor in one flow.
import type { Logger } from 'pino'
import type { ConsumerMeter } from '../../observe/metrics.ts'
import type { InputPort } from '../ports.ts'
import type { AnyProcessor, Context, Scope } from '../processor.ts'

/** The part of a context that the handlers of an input share; the runner adds the rest. */
export type Services = Omit<Context, 'scope' | 'space' | 'signal' | 'log' | 'clock' | 'ids' | 'read'>

export interface ConsumerBinding {
  readonly processor: AnyProcessor
  readonly port: InputPort
  readonly scope: Scope
  readonly topic: string
  readonly group: string
  readonly services: Services
  readonly log: Logger
  readonly meter: ConsumerMeter | undefined
}

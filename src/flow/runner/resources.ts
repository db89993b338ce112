// What the parts of a runner share.
import type { Broker } from '../../broker/broker.ts'
import type { Codec } from '../../messages/codec.ts'
import type { FlowMetrics } from '../../observe/metrics.ts'
import type { ContextSigner } from '../context-signature.ts'
import type { Clock, Ids } from '../processor.ts'
import type { SchemasTopic } from '../schemas-topic.ts'
import type { Circuits } from './circuits.ts'
import type { InFlight } from './in-flight.ts'
import type { TopicFaults } from './topic-faults.ts'

export interface RunnerResources {
  readonly broker: Broker
  readonly codec: Codec
  /** Decodes deliveries, and looks up schemas that this build does not know. */
  readonly schemas: SchemasTopic
  readonly circuits: Circuits
  readonly clock: Clock
  readonly ids: Ids
  /** What topic names begin with. */
  readonly space: string
  readonly signer: ContextSigner
  readonly inFlight: InFlight
  readonly topics: TopicFaults
  readonly metrics?: FlowMetrics
}

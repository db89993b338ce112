// One Kafka in a container, for machines with a Docker engine and without Java and Maven.
import { GenericContainer, Wait } from 'testcontainers'
import { freePorts } from './ports.ts'

const image = 'apache/kafka:4.1.0'

export interface KafkaContainer {
  readonly bootstrap: readonly string[]
  stop(): Promise<void>
}

/**
 * Resolves when the broker takes requests. It is told the port of the host, which clients use. `properties` are more of those
 * of `server.properties`.
 */
export async function startKafkaContainer(
  properties: Readonly<Record<string, string | number>> = {},
): Promise<KafkaContainer> {
  const more = Object.fromEntries(
    Object.entries(properties).map(([name, value]) => [
      `KAFKA_${name.replaceAll('.', '_').toUpperCase()}`,
      `${value}`,
    ]),
  )
  const [port] = await freePorts(1)
  const container = await new GenericContainer(image)
    .withExposedPorts({ container: 9092, host: port! })
    .withEnvironment({
      KAFKA_NODE_ID: '1',
      KAFKA_PROCESS_ROLES: 'broker,controller',
      KAFKA_CONTROLLER_QUORUM_VOTERS: '1@localhost:9093',
      KAFKA_CONTROLLER_LISTENER_NAMES: 'CONTROLLER',
      KAFKA_LISTENERS: 'PLAINTEXT://0.0.0.0:9092,CONTROLLER://localhost:9093',
      KAFKA_ADVERTISED_LISTENERS: `PLAINTEXT://127.0.0.1:${port}`,
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT',
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: '1',
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: '1',
      KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: '1',
      KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: '0',
      KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS: '1000',
      KAFKA_AUTO_CREATE_TOPICS_ENABLE: 'false',
      ...more,
    })
    .withWaitStrategy(Wait.forLogMessage('Kafka Server started'))
    .start()
  return {
    bootstrap: [`127.0.0.1:${port}`],
    stop: async () => {
      await container.stop()
    },
  }
}

// The Kafka broker on a server that wants TLS and a password.
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectKafka, type KafkaOptions } from '../../../src/broker/kafka/kafka.ts'
import type { Secret } from '../../../src/config/secret.ts'
import { brokerSource } from '../../support/brokers.ts'
import { type KafkaServer, startKafka } from '../../support/kafka-server.ts'
import { expectCode, message, textOf } from '../suite/harness.ts'

const run = promisify(execFile)
const present = (await brokerSource('Kafka with TLS and SASL', ['jars'])) !== undefined

describe.skipIf(!present)('Kafka with TLS and SASL', { timeout: 60_000 }, () => {
  let folder: string
  let ca: string
  let server: KafkaServer

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'graphmill-tls-'))
    const keystore = join(folder, 'server.p12')
    const store = ['-keystore', keystore, '-storepass', 'changeit', '-alias', 'kafka']
    const kind = ['-keyalg', 'RSA', '-validity', '2', '-storetype', 'PKCS12']
    await run('keytool', ['-genkeypair', ...store, ...kind, '-dname', 'CN=test', '-ext', 'SAN=IP:127.0.0.1'])
    ca = (await run('keytool', ['-exportcert', '-rfc', ...store])).stdout
    // The server must trust itself to start.
    const truststore = join(folder, 'ca.pem')
    await writeFile(truststore, ca)
    server = await startKafka({
      properties: {
        'listener.security.protocol.map': 'PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT',
        'ssl.keystore.location': keystore,
        'ssl.keystore.password': 'changeit',
        'ssl.keystore.type': 'PKCS12',
        'ssl.truststore.location': truststore,
        'ssl.truststore.type': 'PEM',
        'sasl.enabled.mechanisms': 'PLAIN',
        'sasl.mechanism.inter.broker.protocol': 'PLAIN',
        'listener.name.plaintext.plain.sasl.jaas.config':
          'org.apache.kafka.common.security.plain.PlainLoginModule required ' +
          'username="admin" password="a" user_admin="a" user_miller="grain";',
      },
    })
  }, 120_000)
  afterAll(async () => {
    await server?.stop()
    await rm(folder, { recursive: true, force: true })
  })

  const options = (password: string | Secret): KafkaOptions => ({
    brokers: server.bootstrap,
    tls: { ca },
    sasl: { mechanism: 'plain', username: 'miller', password },
  })

  test('publishes and consumes with the right password', async () => {
    const broker = await connectKafka(options('grain'))
    await broker.ensureTopics([{ name: 'secure', partitions: 2 }])
    await broker.publish(message('secure', 'm'))
    const subscription = {
      group: 'g',
      topic: 'secure',
      maxInFlight: 1,
      from: 'earliest',
      ordering: 'none',
    } as const
    for await (const delivery of broker.consume(subscription, AbortSignal.timeout(30_000))) {
      expect(textOf(delivery)).toBe('m')
      break
    }
    await broker.close()
  })

  test('says that a wrong password was refused, and does not say the password', async () => {
    const refusal = connectKafka(options('bran'))
    await expectCode('broker_refused', refusal)
    await expect(refusal).rejects.not.toThrow('bran')
  })

  test('publishes again when a refused password was corrected', async () => {
    const file = join(folder, 'password')
    const password = { place: '--broker-password', anyText: true, file }
    await writeFile(file, 'grain')
    const broker = await connectKafka(options(password))
    await broker.ensureTopics([{ name: 'corrected', partitions: 1 }])
    await writeFile(file, 'bran')
    await expectCode('broker_refused', broker.publish(message('corrected', 'm')))
    await writeFile(file, 'grain')
    await broker.publish(message('corrected', 'm'))
    await broker.close()
  })

  test('says that a certificate it does not know was refused', async () => {
    await expectCode('certificate_refused', connectKafka({ ...options('grain'), tls: true }))
  })
})

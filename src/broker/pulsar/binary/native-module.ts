// Pulsar's own client for Node, as far as it is used here: a native addon. The package is optional and is loaded on first use. Its
// types are written down here, since the types must hold where it is not installed.
import { createRequire } from 'node:module'
import { GraphmillError } from '../../../errors.ts'
import { redactCut } from '../../../redact.ts'

export interface NativeMessageId {
  serialize(): Buffer
}

export interface NativeMessage {
  /** An array with the properties as its own keys. Throws when one of them is called `length`. */
  getProperties(): object
  getData(): Buffer
  getMessageId(): NativeMessageId
  getPublishTimestamp(): number
  getPartitionKey(): string
}

interface NativeConnection {
  isConnected(): boolean
  close(): Promise<unknown>
}

export interface NativeConsumer extends NativeConnection {
  receive(): Promise<NativeMessage>
  acknowledgeId(id: NativeMessageId): Promise<unknown>
}

export interface NativeProducer extends NativeConnection {
  send(message: {
    readonly data: Buffer
    readonly properties: Readonly<Record<string, string>>
    readonly partitionKey: string
  }): Promise<unknown>
}

export interface NativeReader extends NativeConnection {
  /** Blocks until the server has answered. */
  hasNext(): boolean
  seek(id: NativeMessageId): Promise<unknown>
}

export interface NativeClient {
  subscribe(options: object): Promise<NativeConsumer>
  createProducer(options: object): Promise<NativeProducer>
  createReader(options: object): Promise<NativeReader>
  getPartitionsForTopic(topic: string): Promise<readonly string[]>
  close(): Promise<unknown>
}

export interface NativeModule {
  readonly Client: {
    new (options: object): NativeClient
    setLogHandler(handler: (level: number, file: string, line: number, text: string) => void): void
  }
  readonly AuthenticationToken: new (options: { readonly token: string }) => object
  readonly AuthenticationTls: new (options: {
    readonly certificatePath: string
    readonly privateKeyPath: string
  }) => object
  readonly MessageId: {
    earliest(): NativeMessageId
    latest(): NativeMessageId
    deserialize(bytes: Buffer): NativeMessageId
  }
}

let loaded: NativeModule | undefined

/** Throws `pulsar_client_missing`. `load` is given by tests. */
export function loadNativeModule(
  load: (name: string) => unknown = createRequire(import.meta.url),
): NativeModule {
  try {
    loaded ??= load('pulsar-client') as NativeModule
    return loaded
  } catch (cause) {
    const why = redactCut((cause as Error).message.replace(/\n[\s\S]*/, ''), 200)
    throw new GraphmillError(
      'pulsar_client_missing',
      `The native module pulsar-client, which pulsar:// and pulsar+ssl:// need, cannot be loaded (${why}): install it with \`npm install pulsar-client\`, or use pulsar+ws://, which needs no module.`,
      { cause },
    )
  }
}

// What is said where Pulsar's native client is not installed, or cannot be loaded.
import { expect, test } from 'vitest'
import { connect } from '../../../src/broker/connect.ts'
import { loadNativeModule } from '../../../src/broker/pulsar/binary/native-module.ts'
import { GraphmillError } from '../../../src/errors.ts'
import { nativePulsar } from '../../support/native-pulsar.ts'

const hasModule = nativePulsar('the native client of Pulsar')

test.skipIf(hasModule)(
  'a module that cannot be loaded is named in one sentence, with how to install it and what needs none',
  () => {
    const broken = (name: string): never => {
      throw new Error(`Cannot find module '${name}'\nRequire stack:\n- /somewhere/else.js`)
    }
    let thrown: unknown
    try {
      loadNativeModule(broken)
    } catch (error) {
      thrown = error
    }
    expect(thrown).toBeInstanceOf(GraphmillError)
    expect(thrown).toMatchObject({ code: 'pulsar_client_missing' })
    const { message } = thrown as Error
    expect(message).toContain("Cannot find module 'pulsar-client'")
    expect(message).toContain('npm install pulsar-client')
    expect(message).toContain('pulsar+ws://')
    expect(message).not.toContain('\n')
    expect(message).not.toContain('somewhere')
  },
)

test.skipIf(hasModule).each(['pulsar://localhost:6650', 'pulsar+ssl://localhost:6651/acme/extraction'])(
  'connecting to %s without the module says so before anything is asked',
  async (url) => {
    await expect(connect(url)).rejects.toMatchObject({ code: 'pulsar_client_missing', retry: 'never' })
  },
)

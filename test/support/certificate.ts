// A key for 127.0.0.1 that nobody trusts, made by the keytool of Java, which is there wherever the brokers run.
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

export interface ServerCertificate {
  /** Key and certificate, as Node's TLS server takes them. */
  readonly pfx: Buffer
  readonly passphrase: string
  /** The certificate in PEM, for clients that are to trust it. */
  readonly ca: string
}

/** Valid for a day. */
export async function makeCertificate(): Promise<ServerCertificate> {
  const folder = await mkdtemp(join(tmpdir(), 'graphmill-tls-'))
  const file = join(folder, 'key.p12')
  const passphrase = 'changeit'
  const store = ['-alias', 'server', '-keystore', file, '-storetype', 'PKCS12', '-storepass', passphrase]
  const subject = ['-dname', 'CN=127.0.0.1', '-ext', 'san=ip:127.0.0.1', '-validity', '1']
  try {
    await run('keytool', ['-genkeypair', '-keyalg', 'EC', ...store, ...subject])
    const { stdout } = await run('keytool', ['-exportcert', '-rfc', ...store])
    return { pfx: await readFile(file), passphrase, ca: stdout }
  } finally {
    await rm(folder, { recursive: true })
  }
}

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

/** What may be wrong with it, beside that nobody trusts it. */
export type CertificateFlaw = 'expired' | 'of another host' | 'of an unknown authority'

/** Valid for a day, unless a flaw says otherwise. `ca` is the certificate to trust it by. */
export async function makeCertificate(flaw?: CertificateFlaw): Promise<ServerCertificate> {
  const folder = await mkdtemp(join(tmpdir(), 'graphmill-tls-'))
  const file = join(folder, 'key.p12')
  const passphrase = 'changeit'
  const store = ['-alias', 'server', '-keystore', file, '-storetype', 'PKCS12', '-storepass', passphrase]
  const name = ['-ext', flaw === 'of another host' ? 'san=dns:elsewhere.example' : 'san=ip:127.0.0.1']
  const time = ['-validity', '1', ...(flaw === 'expired' ? ['-startdate', '-10d'] : [])]
  const make = ['-genkeypair', '-keyalg', 'EC', ...time]
  try {
    await run('keytool', [...make, ...store, '-dname', 'CN=server', ...name])
    if (flaw === 'of an unknown authority') return await signed()
    const { stdout } = await run('keytool', ['-exportcert', '-rfc', ...store])
    return { pfx: await readFile(file), passphrase, ca: stdout }
  } finally {
    await rm(folder, { recursive: true })
  }

  /** Signs the server's key with that of an authority, which stays in a store of its own. */
  async function signed(): Promise<ServerCertificate> {
    const [request, reply, root] = ['request', 'reply', 'root'].map((each) => join(folder, each)) as [
      string,
      string,
      string,
    ]
    const authority = ['-alias', 'root', '-keystore', join(folder, 'root.p12'), '-storepass', passphrase]
    await run('keytool', [...make, ...authority, '-dname', 'CN=authority', '-ext', 'bc:c'])
    await run('keytool', ['-exportcert', '-rfc', ...authority, '-file', root])
    await run('keytool', ['-certreq', ...store, '-file', request])
    await run('keytool', ['-gencert', ...authority, ...time, ...name, '-infile', request, '-outfile', reply])
    const trusted = ['-alias', 'root', ...store.slice(2)]
    await run('keytool', ['-importcert', '-noprompt', ...trusted, '-file', root])
    await run('keytool', ['-importcert', '-noprompt', ...store, '-file', reply])
    await run('keytool', ['-delete', ...trusted])
    return { pfx: await readFile(file), passphrase, ca: await readFile(root, 'utf8') }
  }
}

// Why a connection failed, when a retry cannot fix it: a certificate, the TLS handshake, a proxy. The caller names all other
// failures, such as a refused or broken connection.
import { type ErrorCode, GraphmillError } from '../errors.ts'

export type FaultCode = Extract<
  ErrorCode,
  'certificate_refused' | 'tls_failed' | 'proxy_refused' | 'proxy_failed'
>

/** How deep the chain of causes is searched: kafkajs wraps its errors several times. */
const mostCauses = 8

/** The coded error for the first cause of `thrown` that names such a fault; `host` is the server that the connection was meant for. */
export function connectionFault(thrown: unknown, host: string): GraphmillError | undefined {
  let error = thrown
  for (let depth = 0; error instanceof Error && depth < mostCauses; depth++) {
    const fault = certificateFault(error, host) ?? tlsFault(error, host) ?? proxyFault(error, host)
    if (fault) return new GraphmillError(fault.code, fault.message, { cause: thrown })
    error = error instanceof AggregateError ? error.errors[0] : error.cause
  }
  return undefined
}

interface Fault {
  readonly code: FaultCode
  readonly message: string
}

/** By the codes of Node, which are those of OpenSSL's verification. */
const certificateFaults: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: 'has expired',
  CERT_NOT_YET_VALID: 'is not valid yet',
  CERT_REVOKED: 'was revoked',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'is self-signed, and not trusted here',
  ERR_TLS_CERT_ALTNAME_INVALID: 'was issued for another name',
  SELF_SIGNED_CERT_IN_CHAIN: 'is signed by an authority that is not trusted here',
  UNABLE_TO_GET_ISSUER_CERT: 'is signed by an authority that is not trusted here',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'is signed by an authority that is not trusted here',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    'is signed by an authority that is not trusted here, or comes without its intermediate certificates',
}

const otherCertificateFault =
  /^(CERT_|CRL_|ERR_TLS_CERT_|UNABLE_TO_|HOSTNAME_MISMATCH$|INVALID_(CA|PURPOSE)$)/

function certificateFault(error: Error, host: string): Fault | undefined {
  const code = codeOf(error)
  const what = certificateFaults[code] ?? (otherCertificateFault.test(code) ? 'is not accepted' : undefined)
  if (what === undefined) return undefined
  const { reason } = error as { readonly reason?: unknown }
  const why = typeof reason === 'string' ? `: ${reason.slice(0, 300)}` : ''
  return { code: 'certificate_refused', message: `The certificate of ${host} ${what} (${code})${why}.` }
}

function tlsFault(error: Error, host: string): Fault | undefined {
  const code = codeOf(error)
  // Node's `https` turns the same faults into EPROTO; then only the message says which it is.
  if (!/^(ERR_SSL_|ERR_TLS_|EPROTO$)/.test(code)) return undefined
  const words = code === 'EPROTO' ? error.message.toUpperCase().replaceAll(' ', '_') : code
  const why = /WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST/.test(words)
    ? ': what listens there does not speak TLS'
    : /CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE|BAD_CERTIFICATE/.test(words)
      ? ': it may ask for a certificate of this client'
      : ''
  return { code: 'tls_failed', message: `The TLS handshake with ${host} failed (${code})${why}.` }
}

/** undici has no code for this. A test with a real proxy checks the words. */
const refusedTunnel = /^Proxy response \((\d+)\) !== 200/

function proxyFault(error: Error, host: string): Fault | undefined {
  const status = Number(refusedTunnel.exec(error.message)?.[1])
  if (!status) return undefined
  if (status === 407)
    return {
      code: 'proxy_refused',
      message: `The proxy asks for other credentials than it was given for ${host} (407).`,
    }
  // A proxy that is busy, or does not reach the server, may do so later.
  if (status >= 500 || status === 408 || status === 429)
    return { code: 'proxy_failed', message: `The proxy could not reach ${host} (${status}).` }
  return { code: 'proxy_refused', message: `The proxy lets no connection through to ${host} (${status}).` }
}

function codeOf(error: Error): string {
  const { code } = error as { readonly code?: unknown }
  return typeof code === 'string' ? code : ''
}

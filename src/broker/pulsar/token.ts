// The token for Pulsar: a configured one, or one that an OAuth2 server gives for client credentials, renewed before it expires.
import { type Secret, secretText } from '../../config/secret.ts'
import { GraphmillError } from '../../errors.ts'
import { readOpening } from '../../http/body.ts'
import { request } from '../../http/request.ts'
import { keepSecret, redactCut } from '../../redact.ts'

export interface OAuthOptions {
  /** The issuer: its `/.well-known/openid-configuration` names the token endpoint. */
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string | Secret
  readonly audience?: string
  readonly scope?: string
}

/** The issuer must answer within this time. */
const patienceMs = 4_000
/** The longest answer that is read. */
const maxAnswerBytes = 64 * 1024
/** A token is renewed when less than this part of its life is left; one without an expiry, after an hour. */
const renewalPart = 0.2
const defaultLifeSeconds = 3_600

interface TokenOptions {
  readonly token?: string | Secret
  readonly oauth?: OAuthOptions
}

/** Undefined when neither is configured. The function rejects with `broker_refused` or `broker_unavailable`. */
export function tokenOf({ token, oauth }: TokenOptions): (() => Promise<string>) | undefined {
  if (token !== undefined) return async () => secretText(token)
  if (oauth === undefined) return undefined
  let current: Promise<string> | undefined
  let renewAt = 0
  return () => {
    if (current === undefined || performance.now() >= renewAt) {
      renewAt = Number.POSITIVE_INFINITY
      const asked = ask(oauth).then(({ text, lifeSeconds }) => {
        renewAt = performance.now() + lifeSeconds * 1000 * (1 - renewalPart)
        return text
      })
      asked.catch(() => {
        if (current === asked) current = undefined
      })
      current = asked
    }
    return current
  }
}

async function ask(oauth: OAuthOptions): Promise<{ readonly text: string; readonly lifeSeconds: number }> {
  const issuer = oauth.issuer.replace(/\/$/, '')
  const { token_endpoint } = await answerOf(issuer, `${issuer}/.well-known/openid-configuration`)
  if (typeof token_endpoint !== 'string' || !URL.canParse(token_endpoint))
    throw new GraphmillError('broker_refused', `${hostOf(issuer)} names no token endpoint`)
  if (issuer.startsWith('https:') && !token_endpoint.startsWith('https:'))
    throw new GraphmillError('broker_refused', `${hostOf(issuer)} names a token endpoint without TLS`)
  const { access_token, expires_in } = await answerOf(issuer, token_endpoint, {
    grant_type: 'client_credentials',
    client_id: oauth.clientId,
    client_secret: secretText(oauth.clientSecret),
    ...(oauth.audience !== undefined && { audience: oauth.audience }),
    ...(oauth.scope !== undefined && { scope: oauth.scope }),
  })
  if (typeof access_token !== 'string' || !/^[\x21-\x7e]+$/.test(access_token))
    throw new GraphmillError('broker_refused', `${hostOf(issuer)} answered without an access token`)
  keepSecret(access_token, 'pulsar-oauth')
  const lifeSeconds = Number(expires_in)
  return { text: access_token, lifeSeconds: lifeSeconds > 0 ? lifeSeconds : defaultLifeSeconds }
}

/** The JSON object that the issuer answers; with a form, what it answers to the form. */
async function answerOf(
  issuer: string,
  url: string,
  form?: Readonly<Record<string, string>>,
): Promise<Readonly<Record<string, unknown>>> {
  const where = `the OAuth2 server at ${hostOf(issuer)}`
  const signal = AbortSignal.timeout(patienceMs)
  const post = form && { method: 'POST', body: new URLSearchParams(form) }
  const response = await request(url, { signal, ...post }).catch((cause: unknown) => {
    if (cause instanceof GraphmillError) throw cause
    throw new GraphmillError('broker_unavailable', `${where} cannot be reached`, { cause })
  })
  const text = await readOpening(response.body, maxAnswerBytes)
  if (response.status !== 200) {
    const code = response.status === 429 || response.status >= 500 ? 'broker_unavailable' : 'broker_refused'
    const words = redactCut(text.replace(/\s+/g, ' ').trim(), 300)
    throw new GraphmillError(code, `${where} refuses the client credentials (${response.status}): ${words}`)
  }
  try {
    return Object(JSON.parse(text)) as Readonly<Record<string, unknown>>
  } catch (cause) {
    throw new GraphmillError('broker_refused', `${where} answered with no JSON`, { cause })
  }
}

const hostOf = (url: string): string => URL.parse(url)?.host ?? url

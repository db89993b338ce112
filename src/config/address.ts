// Addresses of servers may hold secrets: a user and a password before the host, a token in the query.
import { keepSecret } from '../redact.ts'

/** The address with its secrets masked: `http://***@host/path?token=***`. */
export function maskAddress(address: string): string {
  const credentials = credentialsOf(address)
  const shown = credentials === undefined ? address : address.replace(`${credentials}@`, () => '***@')
  return shown
    .replace(/([?&][^=&#]*=)[^&#]*/g, '$1***')
    .replace(/\?(?![^#]*=)[^#]{9,}/, '?***')
    .replace(/#.+/s, '#***')
}

/** Registers the secrets of an address with `redact`. `place` says where the address was given. */
export function keepAddress(address: string, place: string): void {
  for (const credentials of new Set([inAuthority(address), credentialsOf(address)])) {
    if (credentials === undefined) continue
    const [user = '', ...rest] = credentials.split(':')
    const password = rest.join(':')
    if (password !== '') {
      keepSecret(decoded(password), place)
      keepSecret(`${decoded(user)}:${decoded(password)}`, place, true)
    } else if (user.length >= leastToken) keepSecret(decoded(user), place)
  }
  const query = /\?([^#]*)/.exec(address)?.[1] ?? ''
  for (const [name, value] of new URLSearchParams(query)) if (secretName.test(name)) keepSecret(value, place)
}

/** A user name of this length without a password is taken for a token. */
const leastToken = 16
const secretName = /token|key|secret|pass|pwd|sig|auth|cred|code/i

/** `user:password` as written, up to the last @, even when the address then parses differently: `u:p/w@host`, `u:p@s/w@host`. */
function credentialsOf(address: string): string | undefined {
  const isAddress = Boolean(URL.parse(address)?.host)
  if (isAddress && inAuthority(address) === undefined) return undefined
  const until = isAddress ? '[^?#\\s]*' : '\\S*'
  return new RegExp(`^(?:[a-z][a-z\\d+.-]*://)?(${until})@`, 'i').exec(address)?.[1]
}

/** The same as the URL standard reads it. */
const inAuthority = (address: string) => /^(?:[a-z][a-z\d+.-]*:\/\/)?([^/?#]*)@/i.exec(address)?.[1]

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

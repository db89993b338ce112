// Addresses of servers may hold secrets: a user and a password before the host, a token in the query.
import { keepSecret } from '../redact.ts'

/** An address as it may be shown: `http://***@host/path?token=***`. */
export function maskAddress(address: string): string {
  const credentials = credentialsOf(address)
  const shown = credentials === undefined ? address : address.replace(`${credentials}@`, () => '***@')
  return shown
    .replace(/([?&][^=&#]*=)[^&#]*/g, '$1***')
    .replace(/\?(?![^#]*=)[^#]{9,}/, '?***')
    .replace(/#.+/s, '#***')
}

/** Lets `redact` hide what an address holds; `place` is where it was given. */
export function keepAddress(address: string, place: string): void {
  const credentials = credentialsOf(address)
  if (credentials !== undefined) {
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

/** A user without a password is a name, or a token when it is that long. */
const leastToken = 16
const secretName = /token|key|secret|pass|pwd|sig|auth|cred|code/i

/** `user:password`, as written, also where it makes the address none: `u:p@ss@host`, `u:p/w@host`. */
function credentialsOf(address: string): string | undefined {
  const inAuthority = /^(?:[a-z][a-z\d+.-]*:\/\/)?([^/?#]*)@/i.exec(address)?.[1]
  if (inAuthority !== undefined || URL.parse(address)?.host) return inAuthority
  return /^(?:[a-z][a-z\d+.-]*:\/\/)?([^\s]*)@/i.exec(address)?.[1]
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

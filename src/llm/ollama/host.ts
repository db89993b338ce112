// OLLAMA_HOST, read as Ollama itself reads it.
import { isIPv6 } from 'node:net'
import { GraphmillError } from '../../errors.ts'

/**
 * The base URL of an Ollama server, without a slash at its end, from `host`, `host:port`, `:port`, or a URL.
 * The default port is that of the scheme, or 11434 without a scheme. An address that means every interface of a machine
 * becomes loopback. Throws `configuration_invalid`.
 */
export function ollamaBaseUrl(host: string): string {
  const given = host
    .trim()
    .replace(/^(["'])(.*)\1$/, '$2')
    .trim()
  const hasScheme = given.includes('://')
  const url = URL.parse(hasScheme ? given : `http://${authority(given)}`)
  if (!url || !/^https?:$/.test(url.protocol) || (hasScheme && !given.split('://')[1]))
    throw invalid(`The address of the Ollama server is neither a host nor an http(s) URL`, url)
  if (url.username || url.password)
    throw invalid('The address of the Ollama server must not hold credentials', url)
  if (url.hostname === '0.0.0.0') url.hostname = '127.0.0.1'
  if (url.hostname === '[::]') url.hostname = '[::1]'
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}`
}

/** Completes an address without a scheme: `::1` becomes `[::1]:11434`. */
function authority(given: string): string {
  const [address = '', ...path] = given.split('/')
  const host = isIPv6(address)
    ? `[${address}]`
    : address.startsWith(':') || address === ''
      ? `127.0.0.1${address}`
      : address
  const hasPort = /:\d+$/.test(host.replace(/^\[.*\]/, ''))
  return [hasPort ? host : `${host}:11434`, ...path].join('/')
}

function invalid(message: string, url: URL | null): GraphmillError {
  return new GraphmillError('configuration_invalid', `${message}${url ? `: ${url.host}` : ''}.`)
}

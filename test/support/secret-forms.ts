// The forms in which a server may echo a secret.

/** By what they are called. */
export function formsOf(secret: string): Readonly<Record<string, string>> {
  const bytes = Buffer.from(secret)
  const units = [...Array(secret.length).keys()].map((at) => secret.charCodeAt(at))
  const points = [...secret].map((letter) => letter.codePointAt(0)!)
  const encoded = encodeURIComponent(secret)
  const html: Readonly<Record<string, string>> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
    "'": '&#39;',
  }
  const inJson = JSON.stringify(secret).slice(1, -1)
  return {
    plain: secret,
    'upper case': secret.toUpperCase(),
    'lower case': secret.toLowerCase(),
    percent: encoded,
    'percent in lower case': encoded.replace(/%../g, (each) => each.toLowerCase()),
    'percent, twice': encodeURIComponent(encoded),
    'percent, every byte': [...bytes].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
    base64: bytes.toString('base64'),
    'base64 of a header': Buffer.from(`Bearer ${secret}`).toString('base64').slice(8),
    'base64 of a longer text': Buffer.from(`ab${secret}yz`).toString('base64'),
    base64url: bytes.toString('base64url'),
    'base64 in lower case': bytes.toString('base64').toLowerCase(),
    hex: bytes.toString('hex'),
    'hex in capitals': bytes.toString('hex').toUpperCase(),
    JSON: inJson,
    'JSON in JSON': JSON.stringify(inJson).slice(1, -1),
    'JSON with / escaped': inJson.replaceAll('/', '\\/'),
    'JSON, every letter': units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join(''),
    HTML: secret.replace(/[&<>"']/g, (sign) => html[sign]!),
    'HTML, every letter': points.map((point) => `&#${point};`).join(''),
  }
}

import { expect, test } from 'vitest'
import { serverVariables } from '../src/config/models.ts'
import { type ErrorCode, errorTable } from '../src/errors.ts'

test.each<[ErrorCode, 'address' | 'secret']>([
  ['llm_unavailable', 'address'],
  ['llm_address_wrong', 'address'],
  ['llm_authentication', 'secret'],
  ['llm_not_configured', 'address'],
  ['llm_not_configured', 'secret'],
])('what to do about %s names the variables that hold the %s of a server', (code, kind) => {
  const variables = Object.values(serverVariables).filter(({ holds }) => holds === kind)
  expect(variables).not.toEqual([])
  for (const { variable } of variables) expect(errorTable[code].remedy).toContain(variable)
})

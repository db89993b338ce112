import { describe, expect, test } from 'vitest'
import { literalOf } from '../../src/ontology/literal.ts'

const xsd = (name: string) => `http://www.w3.org/2001/XMLSchema#${name}`
const lexical = (value: string | number | boolean, type: string) => literalOf(value, [[xsd(type)]])?.value

describe('lexical forms', () => {
  test.each([
    ['integer', 42, '42'],
    ['integer', ' 007 ', '7'],
    ['integer', '+5', '5'],
    ['integer', '123456789012345678901234567890', '123456789012345678901234567890'],
    ['integer', 1e21, '1000000000000000000000'],
    ['nonNegativeInteger', '0', '0'],
    ['byte', -128, '-128'],
    ['decimal', '1.50', '1.5'],
    ['decimal', '-.5', '-0.5'],
    ['decimal', '-0.0', '0'],
    ['decimal', 1.5e-7, '0.00000015'],
    ['decimal', '3.', '3'],
    ['double', '1.5E3', '1.5E3'],
    ['float', 'INF', 'INF'],
    ['boolean', true, 'true'],
    ['boolean', '0', 'false'],
    ['boolean', 'True', 'true'],
    ['date', '1786-02-28', '1786-02-28'],
    ['date', '2000-02-29', '2000-02-29'],
    ['date', '2024-12-31+14:00', '2024-12-31+14:00'],
    ['dateTime', '1786-03-12T24:00:00', '1786-03-12T24:00:00'],
    ['dateTime', '1786-03-12T10:00:00.25Z', '1786-03-12T10:00:00.25Z'],
    ['dateTimeStamp', '1786-03-12T10:00:00Z', '1786-03-12T10:00:00Z'],
    ['time', '23:59:59', '23:59:59'],
    ['gYear', 1786, '1786'],
    ['gYear', '-0044', '-0044'],
    ['gYearMonth', '1786-12', '1786-12'],
    ['gMonthDay', '--02-29', '--02-29'],
    ['duration', 'P1Y2M3DT4H5M6.7S', 'P1Y2M3DT4H5M6.7S'],
    ['anyURI', 'http://example.org/ä?b=c', 'http://example.org/ä?b=c'],
    ['string', ' as it is ', ' as it is '],
    ['string', 7, '7'],
    ['token', ' a \n b ', 'a b'],
    ['language', 'de-CH', 'de-CH'],
    ['hexBinary', '0aFF', '0aFF'],
    ['base64Binary', 'aGk=', 'aGk='],
  ])('%s takes %j as %j', (type, value, form) => {
    expect(literalOf(value, [[xsd(type)]])).toEqual({
      value: form,
      datatype: type === 'string' ? null : xsd(type),
    })
  })

  test.each([
    ['integer', '1.0'],
    ['integer', 1.5],
    ['integer', '1,786'],
    ['integer', 'seven'],
    ['integer', true],
    ['nonNegativeInteger', -1],
    ['positiveInteger', 0],
    ['byte', 128],
    ['unsignedByte', 256],
    ['int', '2147483648'],
    ['long', '9223372036854775808'],
    ['decimal', '1e3'],
    ['decimal', '.'],
    ['double', '1,5'],
    ['double', 'Infinity'],
    ['boolean', 'yes'],
    ['boolean', 1.5],
    ['date', '1786-02-30'],
    ['date', '1900-02-29'],
    ['date', '12 March 1786'],
    ['date', '1786-13-01'],
    ['date', '1786-3-1'],
    ['date', 1786],
    ['dateTime', '1786-03-12'],
    ['dateTime', '1786-03-12T25:00:00'],
    ['dateTimeStamp', '1786-03-12T10:00:00'],
    ['time', '24:00:01'],
    ['gYear', '800'],
    ['gYear', 'about 1786'],
    ['gYear', 17.5],
    ['gMonthDay', '--02-30'],
    ['duration', 'P'],
    ['duration', 'P1DT'],
    ['duration', 'two days'],
    ['anyURI', 'not a uri'],
    ['language', 'a-very-long-tag-for-sure-x-123456789'],
    ['hexBinary', 'abc'],
  ])('%s refuses %j', (type, value) => {
    expect(literalOf(value, [[xsd(type)]])).toBeUndefined()
  })

  test('a long text is refused as a number at once', () => {
    const start = performance.now()
    for (const type of [
      'decimal',
      'integer',
      'double',
      'duration',
      'dateTime',
      'gYear',
      'token',
      'base64Binary',
      'anyURI',
      'language',
    ])
      lexical(`${'0'.repeat(99_999)}x\n`, type)
    expect(performance.now() - start).toBeLessThan(1000)
  })
})

describe('ranges', () => {
  test('no range and any literal are plain text, whatever the JSON type', () => {
    expect(literalOf(1786, [])).toEqual({ value: '1786', datatype: null })
    expect(literalOf(true, [['http://www.w3.org/2000/01/rdf-schema#Literal']])).toEqual({
      value: 'true',
      datatype: null,
    })
  })

  test('of several datatypes the first that fits, of several clauses all', () => {
    const either = [[xsd('gYear'), xsd('date')]]
    expect(literalOf('1786-03-12', either)?.datatype).toBe(xsd('date'))
    expect(literalOf('1786', either)?.datatype).toBe(xsd('gYear'))
    expect(literalOf(5, [[xsd('integer')], [xsd('decimal')]])).toEqual({
      value: '5',
      datatype: xsd('integer'),
    })
    expect(literalOf('5.5', [[xsd('decimal')], [xsd('integer')]])).toBeUndefined()
  })

  test('a datatype that is not XML Schema’s takes any text', () => {
    expect(literalOf('12 stone', [['http://example.org/weight']])).toEqual({
      value: '12 stone',
      datatype: 'http://example.org/weight',
    })
  })
})

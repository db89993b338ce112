// Templates of TrustGraph's kind with terms, and how they render.
/** JSON texts, as they come from Python. */
export const terms = {
  text: '"It grinds.\\n"',
  l: '[1, 2.0, "it\'s", null, true]',
  d: '{"10": "ten", "2": {"a": []}, "items": 5, "name": "mill"}',
  mills: '[{"name": "Ada", "kind": null, "wheels": 2}, {"name": "Ben"}]',
  n: '1e16',
  empty: '""',
}

/** What TrustGraph 2.11.1's engine makes of them; `trustgraph-engine.test.ts` asks it. */
export const golden: readonly (readonly [template: string, text: string])[] = [
  ['{{text}}|{{ text }}', 'It grinds.\n|It grinds.\n'],
  ['{{ l }}', '[1, 2.0, "it\'s", None, True]'],
  ['{{ d }}', "{'10': 'ten', '2': {'a': []}, 'items': 5, 'name': 'mill'}"],
  ['{{ d.10 }} {{ d.name.0 }} {{ l.2 }} {{ d.2.a }}', "ten m it's []"],
  ['[{{ missing }}{{ missing.a.b }}{{ d.name.x }}{{ l.9 }}{{ constructor }}]', '[]'],
  ['{{ n }} {{ 1 }} {{ 1.50 }} {{ None }} {{ True }}', '1e+16 1 1.5 None True'],
  ['{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}', "10=ten;2={'a': []};items=5;name=mill;"],
  [
    '{% for m in mills %}{{ loop.index }}/{{ loop.count }}/{{ m.wheels }}{{ m.kind }} {% endfor %}',
    '0/1/2None 1/2/ ',
  ],
  ['{% for m in mills %}a{% else %}b{% endfor %}', 'abab'],
  ['{% for m in missing %}a{% else %}b{% endfor %}', ''],
  ['{% for m in missing %}a{% empty %}b{% endfor %}', 'b'],
  ['{% for m in 5 %}a{% empty %}b{% endfor %}', 'b'],
  ['{% for m in mills %}{% if loop.is_last %}{{ loop.length }}{% endif %}{% endfor %}', '2'],
  ['{% if l and not missing %}yes{% elif l %}x{% else %}no{% endif %}', 'yes'],
  ["{% if 'grind' in text && d.10 == 'ten' %}yes{% endif %}", 'yes'],
  ['{% if missing == missing %}yes{% else %}no{% endif %}', 'no'],
  ['{% if l.0 == True and l.0 < l.1 %}yes{% endif %}', 'yes'],
  ["{{ missing or empty or 'last' }} {{ l ?? 'yes' :: 'no' }}", 'last yes'],
  ["{{ empty|default('none') }} {{ text|len }} {{ l|str|len }} {{ d|len }}", 'none 11 28 4'],
  [
    "{{ l|join('-') }} {{ l|first }} {{ l|last }} {{ l|slice(1, 3) }}",
    '1-2.0-it\'s-None-True 1 True [2.0, "it\'s"]',
  ],
  ['{{ text.strip()|upper }}', 'IT GRINDS.'],
  ["{% with a = l.0 & b = 'x' %}{{ a }}{{ b }}{% endwith %}{{ a }}", '1x'],
  ['{% trim %}  {{ text }} {% endtrim %}|', 'It grinds.|'],
  ["{% for x in l %}{% cycle 'a', 'b' %}{% endfor %}", 'ababa'],
  ['{# {{ text }} #}{$ l $}', '[1, 2.0, &quot;it&#x27;s&quot;, None, True]'],
  ["{{ 'a' 'b' }} {{ 'a', 1 }} {{ {'k': [1, (2,)]} }}", "ab ('a', 1) {'k': [1, (2,)]}"],
  ['{{ range(1, 7, 2) }} {% for i in range(3) %}{{ i }}{% endfor %}', 'range(1, 7, 2) 012'],
  [
    "{{ d.get('name') }} {{ d.get('no', 'x') }} {{ is_defined('d.name') }} {{ d.keys() }}",
    "mill x True dict_keys(['10', '2', 'items', 'name'])",
  ],
  ['{%if l%}{ {a} }}{%endif%}', '{ {a} }}'],
]

/**
 * Templates with everything that the prompts of TrustGraph's sets 1.6 to 2.8 use: terms and their members, `for` over lists and over
 * `items()`, `if` with `and`, and the filter `join`.
 */
export const likeShipped: Readonly<Record<string, string>> = {
  words: 'Answer {{question}} from {{ text }}, {{missing}} and {{documents}}.\n',
  tables:
    "{% for schema in schemas %}{{schema.name}}: {{ schema.description }}\n{% for field in schema.fields %}- {{ field.name }} ({{ field.type }}){% if field.description %}: {{ field.description }}{% endif %}{% if field.primary_key %} key{% endif %}{% if field.enum_values %} {{ field.enum_values|join(', ') }}{% endif %}\n{% endfor %}\n{% endfor %}",
  classes:
    '{% for class_id, class_def in classes.items() %}- {{class_id}}{% if class_def.subclass_of %} < {{class_def.subclass_of}}{% endif %}{% if class_def.comment %} {{class_def.comment}}{% endif %}\n{% endfor %}{% for prop_id, prop_def in properties.items() %}- {{prop_id}}{% if prop_def.domain and prop_def.range %} {{prop_def.domain}} -> {{prop_def.range}}{% endif %}\n{% endfor %}',
  steps:
    '{% if framing %}{{framing}}\n{% endif %}{% for h in history %}{{h.action}}: {% for k, v in h.arguments.items() %}{{k}}={{v}} {% endfor %}{{h.observation}}\n{% endfor %}{% for edge in knowledge %}{{edge.s}} {{edge.p}} {{edge.o}}\n{% endfor %}',
  objects: '{{schema}} {{ history }} {{classes}} {{n}}',
}

const hostile = 'It\'s "so" \\ \n\u00e9 \ud83d\ude00 {{ text }} {% if x %}'

/** Terms for those: ordinary ones, hostile ones, and others than a prompt expects. */
export const termSets: readonly Readonly<Record<string, unknown>>[] = [
  {
    ...{ question: 'Why?', text: 'Mills grind.', documents: ['a', 'b'], framing: '', n: 1.5 },
    schema: { name: 'mill', fields: [{ name: 'a', primary: true, size: 0, enum: null }] },
    schemas: [
      {
        ...{ name: 'mills', description: 'All mills' },
        fields: [
          { name: 'name', type: 'string', primary_key: true, description: 'The name' },
          { name: 'kind', type: 'string', enum_values: ['water', 'wind'], primary_key: false },
        ],
      },
    ],
    classes: { Mill: { comment: 'It grinds.', subclass_of: 'Building' }, Building: {} },
    properties: { built: { domain: 'Mill', range: 'xsd:string' }, owns: { domain: 'Person' } },
    history: [{ action: 'look', arguments: { at: 'mills', deep: true, n: 2 }, observation: null }],
    knowledge: [{ s: 'mill', p: 'is', o: 'building' }],
  },
  {
    ...{ question: hostile, text: hostile, documents: [hostile], framing: hostile, n: [] },
    schema: { [hostile]: [hostile, -0.5, 1e22, null] },
    schemas: [{ fields: [] }, { name: hostile, fields: [{ enum_values: [1, hostile], primary_key: 0 }] }],
    ...{ classes: { [hostile]: { comment: hostile } }, properties: {}, history: [], knowledge: [{}] },
  },
  { text: '', documents: [], schemas: [], classes: {}, properties: {}, history: [], knowledge: [], n: 0 },
  {
    ...{
      question: 3,
      text: ['a'],
      documents: { a: 1 },
      framing: [0],
      n: false,
      schema: 'text',
      schemas: 'ab',
    },
    ...{
      classes: { a: 'text', b: [] },
      properties: { a: null },
      history: [{ arguments: {} }],
      knowledge: ['x'],
    },
  },
]

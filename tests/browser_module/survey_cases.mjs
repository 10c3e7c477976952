/** Compares what a survey in JavaScript makes of answers with vectors, in Node or in a browser. */

/** A value that was written with what JSON lacks. */
function plain(value) {
  if (Array.isArray(value)) return value.map(plain);
  if (value === null || typeof value !== 'object') return value;
  if ('float' in value) return { inf: Infinity, '-inf': -Infinity, nan: NaN }[value.float];
  if ('table' in value) return Object.fromEntries(value.table.map(([name, each]) => [name, plain(each)]));
  const number = Number(value.whole);
  return Number.isSafeInteger(number) ? number : BigInt(value.whole);
}

/** What differs from the vectors, and how many people's answers were taken and refused. */
export function checkCases(cases, Survey, AnswerError) {
  const wrong = [];
  let right = 0, refused = 0;
  const compare = (about, is, should) => {
    if (JSON.stringify(is) !== JSON.stringify(should)) wrong.push({ about, is, should });
  };
  for (const { file, sheet, people } of cases) {
    const survey = new Survey(file);
    survey.sheet.questions.forEach((question, i) => {
      const own = sheet.questions[i];
      for (const name of Object.keys(own)) compare(`${own.name}: ${name}`, question[name], own[name]);
    });
    compare('tables', survey.sheet.tables, sheet.tables);
    for (const { given, entries, question, says } of people) {
      const [fault] = survey.faults(plain(given)), about = JSON.stringify(given);
      if (entries) {
        right++;
        const [text] = fault ? [fault.message] : [null];
        compare(about, text ?? survey.entries(plain(given)).map(String), entries);
      } else {
        refused++;
        compare(about, [fault instanceof AnswerError, fault?.question, fault?.message], [true, question, says]);
      }
    }
  }
  return { wrong: wrong.slice(0, 5), right, refused };
}

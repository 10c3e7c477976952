// What a page says in one of its languages, with numbers and times as its reader writes them.

const base = (tag) => tag.toLowerCase().split('-')[0];
const MOMENTS = new Set(['start', 'end']);
const DECIMAL = /^-?\d+(\.\d+)?$/;
/** A number that no neighbour moves; a sign would go to its other end from right to left. */
const PLAIN = /^[\p{Nd}.,'’٫٬\u00a0\u202f]*$/u;

const isolated = (text) => (PLAIN.test(text) ? text : `\u2068${text}\u2069`);

/** Those of some languages that are any: Chromium lists `en-US@posix`, which is none. */
const known = (tags) => tags.filter((tag) => {
  try {
    return Intl.getCanonicalLocales(tag);
  } catch {
    return false;
  }
});

export class Speech {
  /** Begins in the first language that its reader wants and the page has. */
  constructor(languages, wanted = navigator.languages ?? []) {
    Object.assign(this, { languages, wanted: known(wanted) });
    const tags = languages.map(({ tag }) => tag);
    const places = this.wanted.map((each) => {
      const same = tags.findIndex((tag) => tag.toLowerCase() === each.toLowerCase());
      return same < 0 ? tags.findIndex((tag) => base(tag) === base(each)) : same;
    });
    this.choose(places.find((place) => place >= 0) ?? 0);
  }

  /** Speak the language of this number from now on, as in the reader's own country. */
  choose(place) {
    const { tag, words, own } = this.languages[place];
    const locale = this.wanted.find((each) => base(each) === base(tag)) ?? tag;
    Object.assign(this, {
      place, tag, words, own,
      numbers: new Intl.NumberFormat(locale, { maximumFractionDigits: 20 }),
      moments: new Intl.DateTimeFormat(locale, { dateStyle: 'long', timeStyle: 'short' }),
    });
  }

  /** A number, if it is one, and else the text. */
  number(text) {
    return DECIMAL.test(text) ? this.numbers.format(text) : String(text);
  }

  /**
   * What is said: nothing; one of the survey's own texts, by its number; a string of the page; or a
   * string with what it has in braces (times in milliseconds) and the number of the unit of `high`.
   */
  text(said) {
    if (said === null) return '';
    if (typeof said === 'number') return this.own[said];
    const [word, values = {}, unit] = [said].flat();
    return (this.words[word] ?? '{number}').replace(/\{(\w+)\}/g, (_, name) => {
      const value = values[name];
      if (MOMENTS.has(name)) return this.moments.format(value);
      const behind = name === 'high' && unit !== undefined ? `\u00a0${this.own[unit]}` : '';
      return isolated(this.number(value) + behind);
    });
  }
}

/** A number as it is written with ten digits and a point or comma: Arabic and Persian have others. */
export const latin = (text) => text
  .replaceAll(/[\u0660-\u0669\u06f0-\u06f9]/g, (digit) => digit.codePointAt() % 16)
  .replaceAll(/[\u061c\u200e\u200f]/g, '').replaceAll('٫', '.').replaceAll('٬', ',');

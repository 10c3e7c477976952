// What is filled in and not sent: kept on this device if the person says so, and sent nowhere.

export class Unsent {
  /** `choice` is the box that the person ticks; it stays hidden where a browser keeps nothing. */
  constructor(form, choice, name, storage) {
    Object.assign(this, { form, choice, key: `prio-unsent ${name}` });
    try {
      this.storage = storage();
      this.restore(JSON.parse(this.storage.getItem(this.key)));
      choice.closest('[hidden]').hidden = false;
    } catch {
      this.storage = null;
    }
    form.addEventListener('input', () => this.save());
  }

  /** The fields of questions. */
  get fields() {
    return [...this.form.elements].filter(({ id }) => /^q\d/.test(id));
  }

  restore(kept) {
    if (!kept) return;
    this.choice.checked = this.isKept = true;
    for (const field of this.fields) {
      if (!(field.id in kept)) continue;
      if (field.type === 'text') field.value = kept[field.id];
      else field.checked = kept[field.id];
    }
  }

  /** Keep what is filled in, or nothing any more. */
  save() {
    this.isKept = false;
    if (!this.storage) return;
    try {
      if (!this.choice.checked) return this.storage.removeItem(this.key);
      const filled = this.fields.map((each) => [each.id, each.type === 'text' ? each.value : each.checked]);
      this.storage.setItem(this.key, JSON.stringify(Object.fromEntries(filled.filter(([, value]) => value))));
      this.isKept = true;
    } catch {
      this.choice.checked = false; // there is no room
    }
  }

  /** Delete it: it is sent, or nobody will ask for it. */
  end() {
    this.choice.checked = false;
    this.save();
  }
}

import { readUserSettings } from '../../flows/user-settings.ts';
import { writeStdout } from '../../platform/terminal.ts';
import { resolveSetting, SETTINGS, type SettingName } from '../../protocol/settings.ts';
import { type CommandModule, isSet } from '../command.ts';
import { printJson, tableForPeople } from '../output.ts';

export const command: CommandModule = {
  description: 'Shows every setting, its value and where that comes from.',
  args: { json: { type: 'boolean', description: 'pretty-print' } },
  run: async (argv, { environment, home }) => {
    const userFile = readUserSettings(home);
    const rows = (Object.keys(SETTINGS) as SettingName[]).map((name) => {
      const spec = SETTINGS[name];
      const { value, source } = resolveSetting(name, environment, userFile);
      const shown = value !== null && (spec.unit as string) === 'secret' ? '(set)' : value;
      return { name, environment: spec.environment, value: shown, source, unit: spec.unit, sentence: spec.sentence };
    });
    const table = isSet(argv, 'json')
      ? null
      : tableForPeople(rows, [
          { title: 'SETTING', of: (row) => row.environment },
          { title: 'VALUE', of: (row) => row.value ?? '-' },
          { title: 'FROM', of: (row) => row.source },
          { title: 'MEANING', of: (row) => row.sentence },
        ]);
    if (table === null) printJson({ schema_version: 1, settings: rows }, isSet(argv, 'json'));
    else writeStdout(`${table}\n`);
    return 0;
  },
};

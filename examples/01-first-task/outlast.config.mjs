// outlast.config.mjs: where the handlers are
import { defineConfig } from 'outlast';

export default defineConfig({ tasks: ['./src/handlers/*'] });

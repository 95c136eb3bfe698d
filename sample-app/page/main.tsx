import { render } from 'preact';

import { connect, startClock } from './connection.js';
import { Lab } from './lab.js';
import './styles.css';

const root = document.querySelector('#lab');
if (root === null) throw new Error('Expected an element #lab');
render(<Lab />, root);
startClock();
connect();
